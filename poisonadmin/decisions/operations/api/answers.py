"""Shared parts of the endpoints of selections and operations."""

from typing import Any

from rest_framework.response import Response

from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.messages.queries.message_rows import MessageRow
from poisonadmin.store.models.lane import AddressStatus
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView

MESSAGE = Shape("Message", MessageRow, kinds={"state": State, "reason": Reason | None, "address_status": AddressStatus})


def shown(shape: Shape, row: Any) -> Response:
    """Return an object that has no ETag."""
    return Response(shape.render(row))


def created(view: ApiView, shape: Shape, row: Any, status: int) -> Response:
    """Return a new object, whose URL is its list's with its id behind it."""
    location = view.request.build_absolute_uri(f"{row.id}/")
    return Response(shape.render(row), status=status, headers={"Location": location})
