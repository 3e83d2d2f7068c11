"""A consumer's confirmation on what was delivered to it."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.messages.api.messages import shown
from poisonadmin.messages.api.shapes import MESSAGE_DETAIL
from poisonadmin.messages.commands.confirmations import confirm
from poisonadmin.messages.queries.detail import get_message
from poisonadmin.web.api.contract import contract
from poisonadmin.web.api.inputs import MAX_REASON_CHARS, StrictSerializer, Text
from poisonadmin.web.api.view import ApiView

MAX_ATTEMPT = 2**31 - 1


class ConfirmInput(StrictSerializer):
    """What there is to say, if anything; which delivery it was, as the header `PoisonAdmin-Attempt` says."""

    reason = Text(max_length=MAX_REASON_CHARS, required=False, allow_null=True, allow_blank=True)
    attempt = serializers.IntegerField(min_value=1, max_value=MAX_ATTEMPT, required=False, allow_null=True)


class MessageConfirm(ApiView):
    """`/messages/{id}/confirm/`."""

    @contract(Permission.INGEST, "messages", {200: MESSAGE_DETAIL}, body=ConfirmInput, acts=True)
    def post(self, request: Request, message_id: int) -> Response:
        """Confirm that the consumer behind a broker has processed the message.

        The first word counts; saying it again changes nothing. It is kept who says it, and when. 409
        `transition_not_allowed` when the message is neither delivered nor under way.
        """
        note, attempt = self.body.get("reason"), self.body.get("attempt")
        confirm(message_id, principal=self.principal, note=note or None, attempt=attempt)
        return shown(get_message(message_id, principal=self.reader))
