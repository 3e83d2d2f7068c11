"""Decisions on one message."""

import re
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.params import MAX_OWNER_CHARS
from poisonadmin.desk.api.messages import MESSAGE_DETAIL
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.messages.commands.confirmations import confirm
from poisonadmin.web.api.contract import (
    MAX_REASON_CHARS,
    JsonObject,
    Moment,
    ReasonInput,
    StrictSerializer,
    Text,
    contract,
)
from poisonadmin.web.api.view import ApiView, route, shown

_ETAG = re.compile(r'"([A-Z]{4})-(\d{1,9})-(\d{1,9})"')
_TERMS: dict[str, Any] = {"body": ReasonInput, "acts": True, "decides": True}
# 202: another person has to sign off; `Location` is the operation that waits, and nothing of it is done.
_GIVES = {200: MESSAGE_DETAIL, 202: MESSAGE_DETAIL}
MAX_ATTEMPT = 2**31 - 1


class PostponeInput(ReasonInput):
    """Until when; a time in the past means now."""

    until = Moment()


class _DecisionView(ApiView):
    """Base of the endpoints that decide on a message."""

    def decided(self, message_id: int, action: OperationAction, **more: Any) -> Response:
        """Carry out the decision, or have it wait for a sign-off, and return the message as it is now."""
        decided = decide_on(
            [message_id],
            action,
            principal=self.principal,
            reason=self.body["reason"],
            is_one=True,
            **self._expected(),
            **more,
        )
        message = get_message(message_id, principal=self.reader)
        return self.accepted(shown(MESSAGE_DETAIL, message), decided.awaits)

    def _expected(self) -> dict[str, Any]:
        found = self.if_match(_ETAG)
        return {} if found is None else {"expected_state": found[1], "expected_attempt": int(found[2])}


class MessageApprove(_DecisionView):
    """`/messages/{id}/approve/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **_TERMS)
    def post(self, message_id: int) -> Response:
        """Approve a message in NDLV: it is due now at its return address, with its failures reset."""
        return self.decided(message_id, OperationAction.APPROVE)


class MessageFail(_DecisionView):
    """`/messages/{id}/fail/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **_TERMS)
    def post(self, message_id: int) -> Response:
        """Mark a message in NDLV as FAIL."""
        return self.decided(message_id, OperationAction.FAIL)


class MessageQuarantine(_DecisionView):
    """`/messages/{id}/quarantine/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **_TERMS)
    def post(self, message_id: int) -> Response:
        """Stop a message in TBDL from being delivered: NDLV, `quarantined`."""
        return self.decided(message_id, OperationAction.QUARANTINE)


class MessageRestore(_DecisionView):
    """`/messages/{id}/restore/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **_TERMS)
    def post(self, message_id: int) -> Response:
        """Bring a message in FAIL back to NDLV."""
        return self.decided(message_id, OperationAction.RESTORE)


class MessageDeliverNow(_DecisionView):
    """`/messages/{id}/deliver_now/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **_TERMS)
    def post(self, message_id: int) -> Response:
        """Make a waiting message due now."""
        return self.decided(message_id, OperationAction.DELIVER_NOW)


class MessagePostpone(_DecisionView):
    """`/messages/{id}/postpone/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **{**_TERMS, "body": PostponeInput})
    def post(self, message_id: int) -> Response:
        """Let a message in TBDL wait until a time."""
        return self.decided(message_id, OperationAction.POSTPONE, until=self.body["until"])


class MessageReturn(_DecisionView):
    """`/messages/{id}/return/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **_TERMS)
    def post(self, message_id: int) -> Response:
        """Send a message that was moved back to its original address, to be delivered there."""
        return self.decided(message_id, OperationAction.RETURN)


class MessageRelease(_DecisionView):
    """`/messages/{id}/release/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **_TERMS)
    def post(self, message_id: int) -> Response:
        """Take a message's bookmark off the poison list, and approve the message."""
        return self.decided(message_id, OperationAction.RELEASE)


class RedirectInput(ReasonInput):
    """The address to deliver to."""

    address = Text(max_length=MAX_ADDRESS_CHARS)


class MessageRedirect(_DecisionView):
    """`/messages/{id}/redirect/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **{**_TERMS, "body": RedirectInput})
    def post(self, message_id: int) -> Response:
        """Deliver a message in NDLV to another address than its return address."""
        return self.decided(message_id, OperationAction.REDIRECT, params={"address": self.body["address"]})


class PatchInput(ReasonInput):
    """`json_patch` (RFC 6902), or `payload`, a text in the place of the whole payload; `headers`: `set`, `remove`."""

    json_patch = serializers.ListField(required=False)
    payload = Text(required=False, trim_whitespace=False, allow_blank=True)
    headers = JsonObject(required=False)


class MessagePatch(_DecisionView):
    """`/messages/{id}/patch/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **{**_TERMS, "body": PatchInput})
    def post(self, message_id: int) -> Response:
        """Change a message in NDLV and deliver it: what it was is kept as a version. It takes `read_payload` too."""
        params = {name: value for name, value in self.body.items() if name != "reason"}
        return self.decided(message_id, OperationAction.PATCH, params=params)


class AssignInput(ReasonInput):
    """`owner`: the name of an account, null for nobody; left out, it stays. `tags`: lists, `add` and `remove`."""

    owner = Text(required=False, allow_null=True, allow_blank=True, max_length=MAX_OWNER_CHARS)
    tags = JsonObject(required=False)


class MessageAssign(_DecisionView):
    """`/messages/{id}/assign/`."""

    @contract(Permission.DECIDE, "decisions", _GIVES, **{**_TERMS, "body": AssignInput})
    def post(self, message_id: int) -> Response:
        """Set the owner and tags of a message, in any state but DLNG. Its delivery is not touched."""
        params = {name: value for name, value in self.body.items() if name != "reason"}
        return self.decided(message_id, OperationAction.ASSIGN, params=params)


class ConfirmInput(StrictSerializer):
    """A note, which may be left out; `attempt`: the delivery, as the header `PoisonAdmin-Attempt` named it."""

    reason = Text(max_length=MAX_REASON_CHARS, required=False, allow_null=True, allow_blank=True)
    attempt = serializers.IntegerField(min_value=1, max_value=MAX_ATTEMPT, required=False, allow_null=True)


class MessageConfirm(ApiView):
    """`/messages/{id}/confirm/`."""

    @contract(Permission.INGEST, "messages", {200: MESSAGE_DETAIL}, body=ConfirmInput, acts=True)
    def post(self, message_id: int) -> Response:
        """Confirm that the consumer behind a broker has processed the message.

        The first word counts; saying it again changes nothing. It is kept who says it, and when. 409
        `transition_not_allowed` when the message is neither delivered nor under way.
        """
        note, attempt = self.body.get("reason"), self.body.get("attempt")
        confirm(message_id, principal=self.principal, note=note or None, attempt=attempt)
        return shown(MESSAGE_DETAIL, get_message(message_id, principal=self.reader))


urlpatterns = [
    route("messages/<id:message_id>/approve/", MessageApprove, name="api-message-approve"),
    route("messages/<id:message_id>/fail/", MessageFail, name="api-message-fail"),
    route("messages/<id:message_id>/quarantine/", MessageQuarantine, name="api-message-quarantine"),
    route("messages/<id:message_id>/restore/", MessageRestore, name="api-message-restore"),
    route("messages/<id:message_id>/deliver_now/", MessageDeliverNow, name="api-message-deliver-now"),
    route("messages/<id:message_id>/postpone/", MessagePostpone, name="api-message-postpone"),
    route("messages/<id:message_id>/return/", MessageReturn, name="api-message-return"),
    route("messages/<id:message_id>/release/", MessageRelease, name="api-message-release"),
    route("messages/<id:message_id>/redirect/", MessageRedirect, name="api-message-redirect"),
    route("messages/<id:message_id>/patch/", MessagePatch, name="api-message-patch"),
    route("messages/<id:message_id>/assign/", MessageAssign, name="api-message-assign"),
    route("messages/<id:message_id>/confirm/", MessageConfirm, name="api-message-confirm"),
]
