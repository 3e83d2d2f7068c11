"""The one question each request is asked before its view runs."""

from typing import Any

from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from poisonadmin.core.domain.access import Principal
from poisonadmin.web.api.contract import contract_of


class MayDo(BasePermission):
    """Lets through who holds the permission that the view's contract names for this method."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True; raise NotAuthenticated, PermissionDenied, NotAllowed."""
        if request.auth is None:
            if request.user is not None:
                raise PermissionDenied("This account has no role yet; an administrator gives it one.")
            raise NotAuthenticated("Log in, or send a token as `Authorization: Bearer pa_…`.")
        assert isinstance(request.auth, Principal)
        contract = contract_of(view, request.method)
        if contract is not None:
            request.auth.require(contract.needs)
        return True
