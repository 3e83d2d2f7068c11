"""Deployments of consumers, as they were reported."""

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from poisonadmin.core.domain.access import Principal
from poisonadmin.deployments.queries import list_deployments
from poisonadmin.web.pages.views import Section, SidebarEntry, page, pager


@page(
    filters=("consumer",),
    sidebar=SidebarEntry(Section.INSIGHTS, 30, "Deployments", "rocket", "v"),
    topic="use/deployments",
)
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """List the deployments, the latest first."""
    consumer = request.GET.get("consumer")
    found = list_deployments(principal=principal, consumer=consumer, cursor=request.GET.get("cursor"))
    context = {"rows": found.results, "pager": pager(request, found), "consumer": consumer}
    return render(request, "deployments/deployments.html", context)


urlpatterns = [path("deployments/", show_all, name="deployments")]
