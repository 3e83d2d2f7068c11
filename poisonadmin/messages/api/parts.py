"""What belongs to one message: its log, its bytes, its schedule."""

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.queries.paging import DEFAULT_LIMIT
from poisonadmin.delivery.queries.schedule import schedule
from poisonadmin.messages.api.shapes import ATTEMPT, HISTORY, HOP, SCHEDULE, TRANSPORT
from poisonadmin.messages.queries.detail import payload
from poisonadmin.messages.queries.history import attempts, history, hops
from poisonadmin.messages.queries.transport import get_transport
from poisonadmin.web.api.attachments import attachment
from poisonadmin.web.api.contract import Paged, Raw, contract
from poisonadmin.web.api.parameters import PAGE
from poisonadmin.web.api.rendering import TakeAny
from poisonadmin.web.api.view import ApiView


class MessageAttempts(ApiView):
    """`/messages/{id}/attempts/`."""

    @contract(Permission.READ, "messages", {200: Paged(ATTEMPT)}, query=PAGE)
    def get(self, request: Request, message_id: int) -> Response:
        """Show the failure log: each delivery try, newest first. Attempt 0 is the failure before import."""
        found = attempts(
            message_id,
            principal=self.principal,
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, ATTEMPT)


class MessageHistory(ApiView):
    """`/messages/{id}/history/`."""

    @contract(Permission.READ, "messages", {200: Paged(HISTORY)}, query=PAGE)
    def get(self, request: Request, message_id: int) -> Response:
        """Show each change of state, newest first."""
        found = history(
            message_id,
            principal=self.principal,
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, HISTORY)


class MessageHops(ApiView):
    """`/messages/{id}/hops/`."""

    @contract(Permission.READ, "messages", {200: Paged(HOP)}, query=PAGE)
    def get(self, request: Request, message_id: int) -> Response:
        """Show each move from an address to another, newest first."""
        found = hops(
            message_id,
            principal=self.principal,
            cursor=self.query["cursor"],
            limit=self.query["limit"] or DEFAULT_LIMIT,
        )
        return self.paged(found, HOP)


class MessageTransport(ApiView):
    """`/messages/{id}/transport/`."""

    @contract(Permission.READ, "messages", {200: TRANSPORT})
    def get(self, request: Request, message_id: int) -> Response:
        """Show what its broker reported of the message: routing, key, properties, typed headers."""
        return Response(TRANSPORT.render(get_transport(message_id, principal=self.principal)))


class MessageSchedule(ApiView):
    """`/messages/{id}/schedule/`."""

    @contract(Permission.READ, "messages", {200: SCHEDULE})
    def get(self, request: Request, message_id: int) -> Response:
        """Explain when it was tried and when it will be, with the terms of each wait."""
        return Response(SCHEDULE.render(schedule(message_id, principal=self.principal)))


class MessagePayload(ApiView):
    """`/messages/{id}/payload/`."""

    content_negotiation_class = TakeAny

    @contract(Permission.READ_PAYLOAD, "messages", {200: Raw()})
    def get(self, request: Request, message_id: int) -> HttpResponseBase:
        """Download the payload: the bytes as they came in, always as an attachment, never as what they claim to be.

        It is sent as it is read, a few megabytes at a time.
        """
        found = payload(message_id, principal=self.principal)
        return attachment(request, found, f"message-{message_id}.payload")
