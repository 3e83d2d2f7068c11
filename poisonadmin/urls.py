"""All routes: probes at the root, the API under /api/v1/, the pages under the rest.

A page route's name before the first dash is the entry of the side bar that it belongs to.
"""

from allauth.account import views
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.cache import never_cache

from poisonadmin.web.api.problems import plain_problem
from poisonadmin.web.pages import errors

API = [
    "poisonadmin.desk.api.messages",
    "poisonadmin.desk.api.decisions",
    "poisonadmin.desk.api.failures",
    "poisonadmin.desk.api.groups",
    "poisonadmin.decisions.operations.api.selections",
    "poisonadmin.decisions.operations.api.operations",
    "poisonadmin.decisions.sign_offs.api",
    "poisonadmin.intake.api",
    "poisonadmin.desk.api.addresses",
    "poisonadmin.destinations.api",
    "poisonadmin.policies.api",
    "poisonadmin.rules.api",
    "poisonadmin.reports.api",
    "poisonadmin.decisions.restart_jobs.api",
    "poisonadmin.search.views.api",
    "poisonadmin.search.deep.api",
    "poisonadmin.alerts.api",
    "poisonadmin.desk.api.alike",
    "poisonadmin.comparisons.api",
    "poisonadmin.sources.api.sources",
    "poisonadmin.sources.api.broker_checks",
    "poisonadmin.desk.api.poison_entries",
    "poisonadmin.desk.api.poison_events",
    "poisonadmin.archive.api",
    "poisonadmin.runs.api",
    "poisonadmin.system.api.activity",
    "poisonadmin.web.api.docs",
]
PAGES = [
    "poisonadmin.desk.pages.triage",
    "poisonadmin.desk.pages.crashed",
    "poisonadmin.desk.pages.completion",
    "poisonadmin.desk.pages.facets",
    "poisonadmin.desk.pages.decisions",
    "poisonadmin.desk.pages.detail",
    "poisonadmin.desk.pages.edit",
    "poisonadmin.desk.pages.groups",
    "poisonadmin.desk.pages.moved",
    "poisonadmin.decisions.operations.pages.operations",
    "poisonadmin.decisions.operations.pages.selections",
    "poisonadmin.decisions.sign_offs.pages",
    "poisonadmin.desk.pages.addresses",
    "poisonadmin.destinations.pages.destinations",
    "poisonadmin.policies.pages.policies",
    "poisonadmin.desk.pages.poison_list",
    "poisonadmin.rules.pages.rules",
    "poisonadmin.reports.pages.views",
    "poisonadmin.reports.pages.summary",
    "poisonadmin.decisions.restart_jobs.pages",
    "poisonadmin.search.views.pages",
    "poisonadmin.search.deep.pages",
    "poisonadmin.alerts.pages",
    "poisonadmin.desk.pages.alike",
    "poisonadmin.comparisons.pages",
    "poisonadmin.sources.pages.sources",
    "poisonadmin.sources.pages.broker_checks",
    "poisonadmin.archive.pages",
    "poisonadmin.runs.pages",
    "poisonadmin.system.pages.overview",
    "poisonadmin.system.pages.shell",
    "poisonadmin.system.pages.activity",
]
# Of allauth's pages those that need no mail.
ACCOUNTS = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("signup/", views.signup, name="account_signup"),
    path("reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
    path("password/change/", never_cache(views.password_change), name="account_change_password"),
]
urlpatterns = [
    path("", include("poisonadmin.system.api.probes")),
    path("api/v1/", include([path("", include(routes)) for routes in API])),
    path("accounts/", include(ACCOUNTS)),
    path("", include([path("", include(routes)) for routes in PAGES])),
]


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django refuses before any view is asked, such as a request for another host: problem or page."""
    if request.path.startswith("/api/"):
        detail = "The request was refused: its Host header, or something else in it, is not acceptable."
        return plain_problem(request, status=400, code="bad_request", detail=detail)
    return errors.bad_request(request, exception)


handler400 = bad_request
handler403 = "poisonadmin.web.pages.errors.forbidden"
handler404 = "poisonadmin.web.pages.errors.not_found"
handler500 = "poisonadmin.web.pages.errors.server_error"
