"""Decisions on one message."""

import re

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS
from poisonadmin.decisions.operations.commands.beginning import decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.params import MAX_OWNER_CHARS
from poisonadmin.desk.api.messages import MESSAGE_DETAIL
from poisonadmin.desk.queries.detail import get_message
from poisonadmin.groups.domain.annotations import MAX_NOTE_CHARS
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
MAX_ATTEMPT = 2**31 - 1


class PostponeInput(ReasonInput):
    """Until when; a time in the past means now."""

    until = Moment()


class RedirectInput(ReasonInput):
    """The address to deliver to."""

    address = Text(max_length=MAX_ADDRESS_CHARS)


class PatchInput(ReasonInput):
    """`json_patch` (RFC 6902), or `payload`, a text in the place of the whole payload; `headers`: `set`, `remove`."""

    json_patch = serializers.ListField(required=False)
    payload = Text(required=False, trim_whitespace=False, allow_blank=True)
    headers = JsonObject(required=False)


class AssignInput(ReasonInput):
    """Anything left out stays. `owner`: the name of an account, null for nobody. `tags`: lists, `add` and `remove`.

    `note`: null for none.
    """

    owner = Text(required=False, allow_null=True, allow_blank=True, max_length=MAX_OWNER_CHARS)
    tags = JsonObject(required=False)
    note = Text(required=False, allow_null=True, allow_blank=True, max_length=MAX_NOTE_CHARS)


# Each decision, with its endpoint's description and input.
_DECISIONS: dict[OperationAction, tuple[str, type[ReasonInput]]] = {
    OperationAction.APPROVE: (
        "Approve a message in NDLV: it is due now at its return address, with its failures reset.",
        ReasonInput,
    ),
    OperationAction.FAIL: ("Mark a message in NDLV as FAIL.", ReasonInput),
    OperationAction.QUARANTINE: ("Stop a message in TBDL from being delivered: NDLV, `quarantined`.", ReasonInput),
    OperationAction.RESTORE: ("Bring a message in FAIL back to NDLV.", ReasonInput),
    OperationAction.DELIVER_NOW: ("Make a waiting message due now.", ReasonInput),
    OperationAction.POSTPONE: ("Let a message in TBDL wait until a time.", PostponeInput),
    OperationAction.RETURN: (
        "Send a message that was moved back to its original address, to be delivered there.",
        ReasonInput,
    ),
    OperationAction.RELEASE: (
        "Take a message's bookmark off the poison list, and approve the message.",
        ReasonInput,
    ),
    OperationAction.REDIRECT: (
        "Deliver a message in NDLV to another address than its return address.",
        RedirectInput,
    ),
    OperationAction.PATCH: (
        "Change a message in NDLV and deliver it: what it was is kept as a version. It takes `read_payload` too.",
        PatchInput,
    ),
    OperationAction.ASSIGN: (
        "Set the owner, tags and note of a message, in any state but DLNG. Its delivery is not touched.",
        AssignInput,
    ),
}


def _endpoint(action: OperationAction, about: str, body: type[ReasonInput]) -> type[ApiView]:
    """Return the view that carries a decision out, or has it wait for a sign-off, and shows the message as it is."""

    def post(self: ApiView, message_id: int) -> Response:
        found = self.if_match(_ETAG)
        expected = {"expected_state": found[1], "expected_attempt": int(found[2])} if found else {}
        params = dict(self.body)
        decided = decide_on(
            [message_id],
            action,
            principal=self.principal,
            reason=params.pop("reason"),
            until=params.pop("until", None),
            params=params,
            is_one=True,
            **expected,
        )
        message = get_message(message_id, principal=self.reader)
        return self.accepted(shown(MESSAGE_DETAIL, message), decided.awaits)

    post.__doc__ = about
    # 202: another person has to sign off; `Location` is the operation that waits, and nothing of it is done.
    gives = {200: MESSAGE_DETAIL, 202: MESSAGE_DETAIL}
    handler = contract(Permission.DECIDE, "decisions", gives, body=body, acts=True, decides=True)(post)
    return type(f"Message_{action}", (ApiView,), {"operation": f"message_{action}", "post": handler})


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
    *(
        route(
            f"messages/<id:message_id>/{action}/",
            _endpoint(action, about, body),
            name=f"api-message-{action.replace('_', '-')}",
        )
        for action, (about, body) in _DECISIONS.items()
    ),
    route("messages/<id:message_id>/confirm/", MessageConfirm, name="api-message-confirm"),
]
