"""The one gate before every page: who asks, may they, and what to show when not."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django_htmx.http import HttpResponseClientRedirect

from poisonadmin.core.commands.authentication import principal_of_user
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.web.pages.errors import NO_ROLE, advice_page, error_page
from poisonadmin.web.pages.links import require_known, tidied

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, Principal, P], HttpResponseBase]


def page(
    permission: Permission = Permission.READ, *, filters: Collection[str] | None = None
) -> Callable[[View[P]], Callable[..., HttpResponseBase]]:
    """Wrap a view so that it is called with the principal, who holds `permission`; errors of ours become pages.

    `filters`: the view is a list, which these parameters of the query narrow. It is called with a tidy query.
    """

    def wrap(view: View[P]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def gated(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_login(request)
            principal = principal_of_user(request.user)
            if principal is None:
                return advice_page(request, NO_ROLE, "No role was given to this account.", 403, "no_role")
            request.principal = principal  # type: ignore[attr-defined]
            try:
                principal.require(permission)
                if filters is not None:
                    if tidy := tidied(request):
                        return tidy
                    require_known(request, *filters)
                return view(request, principal, *args, **kwargs)
            except PoisonAdminError as error:
                return error_page(request, error)

        gated.permission = permission  # type: ignore[attr-defined]
        return never_cache(gated)

    return wrap


def _to_login(request: HttpRequest) -> HttpResponseBase:
    # htmx would follow a plain redirect and put the login form into the middle of the page.
    if getattr(request, "htmx", False):
        current = urlsplit(request.headers.get("HX-Current-URL", "/"))
        back = f"{current.path}?{current.query}" if current.query else current.path
        return HttpResponseClientRedirect(redirect_to_login(back).url)
    return redirect_to_login(request.get_full_path())
