"""All routes: probes at the root, the API under /api/v1/, the pages under the rest.

Those of a feature are found in its folder; the order in which they are tried is not defined, so no two may
match one URL.
The name of a page's route, before its first dash, is the entry of the side bar that it belongs to.
"""

from importlib import import_module
from pathlib import Path

from allauth.account import views
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.decorators.cache import never_cache
from django.views.generic import RedirectView

from poisonadmin.system.api.metrics import METRICS
from poisonadmin.system.api.probes import PROBES
from poisonadmin.system.pages.sign_on import ROUTES as SIGN_ON_ROUTES
from poisonadmin.web.api.document import nothing_here
from poisonadmin.web.api.problems import plain_problem
from poisonadmin.web.pages import errors, second_factors  # noqa: F401  (its receivers)
from poisonadmin.web.pages.passwords import SetPassword

PACKAGE = Path(__file__).parent


def _routes(role: str) -> list[URLResolver]:
    """Return the routes of every feature: `urlpatterns` of the modules that make up its role `api` or `pages`."""
    files = sorted({*PACKAGE.rglob(f"{role}.py"), *PACKAGE.rglob(f"{role}/*.py")})
    names = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files]
    modules = [import_module(name) for name in names if not name.endswith(".__init__")]
    return [path("", include(module)) for module in modules if hasattr(module, "urlpatterns")]


# Of allauth's pages those that need no mail.
ACCOUNTS = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("signup/", views.signup, name="account_signup"),
    path("reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
    path("password/change/", never_cache(views.password_change), name="account_change_password"),
    path("password/set/<slug:uidb64>/<slug:token>/", SetPassword.as_view(), name="account_set_password"),
    *SIGN_ON_ROUTES,
    path("2fa/webauthn/", RedirectView.as_view(pattern_name="mfa_index")),  # which lists them
    path("2fa/", include("allauth.mfa.urls")),
]
# The last one is also for a forgotten slash at the end: a redirect would turn a POST into a GET.
API: list[URLPattern | URLResolver] = [*_routes("api"), re_path("", nothing_here)]
PAGES = _routes("pages")
urlpatterns = [
    path("", include([*PROBES, *METRICS])),
    path("api/v1/", include(API)),
    path("accounts/", include(ACCOUNTS)),
    path("", include(PAGES)),
]


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django refuses before any view is asked, such as a request for another host: problem or page."""
    if request.path.startswith("/api/"):
        detail = "The request was refused: its Host header, its query, or something else in it, is not acceptable."
        return plain_problem(request, status=400, code="bad_request", detail=detail)
    return errors.bad_request(request, exception)


handler400 = bad_request
handler403 = "poisonadmin.web.pages.errors.forbidden"
handler404 = "poisonadmin.web.pages.errors.not_found"
handler500 = "poisonadmin.web.pages.errors.server_error"
