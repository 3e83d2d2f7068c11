"""The OpenAPI document, its page, and what no route leads to. Included behind the features' routes."""

from django.urls import path, re_path

from poisonadmin.web.api import docs
from poisonadmin.web.api.routes import route

urlpatterns = [
    route("schema/", docs.Schema, name="api-schema"),
    path("docs/", docs.docs_page, name="api-docs"),
    # Also for a forgotten slash at the end: a redirect would turn a POST into a GET.
    re_path("", docs.nothing_here),
]
