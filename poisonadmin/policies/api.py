"""Policies."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NEW
from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.policies import queries as policies
from poisonadmin.policies.commands import delete_policy, save_policy
from poisonadmin.policies.domain.policy import PRESETS
from poisonadmin.policies.queries import Change, PolicyVersion, PolicyView, Preview, policy_history
from poisonadmin.web.api.contract import Identifier, JsonObject, Paged, StrictSerializer, Text, contract, pattern
from poisonadmin.web.api.shape import BREAKER, JsonSchema, Shape
from poisonadmin.web.api.view import ApiView, route, shown

POLICY = Shape("Policy", PolicyView)
POLICY_CHANGE = Shape("PolicyChange", Change)
POLICY_VERSION = Shape("PolicyVersion", PolicyVersion, kinds={"changes": list[POLICY_CHANGE]})  # type: ignore[valid-type]
PREVIEW = Shape(
    "PolicyPreview",
    Preview,
    leave_out={"in_force"},
    kinds={"then": State | None, "reason": Reason | None, "breakers": list[BREAKER]},  # type: ignore[valid-type]
)
IN_FORCE: JsonSchema = {
    "type": "object",
    "properties": {
        "address": {"type": "string"},
        "policy": {"type": "object", "additionalProperties": True},
        "destination": {"type": "string", "nullable": True},
        "origins": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"pattern": {"type": "string"}, "preset": {"type": "string", "nullable": True}},
                "required": ["pattern", "preset"],
            },
        },
    },
    "required": ["address", "policy", "destination", "origins"],
}


class PolicyInput(StrictSerializer):
    """`settings` names what is set at this pattern; all else is inherited from less specific patterns."""

    match = Text(max_length=255)
    preset = serializers.ChoiceField(choices=sorted(PRESETS), required=False, allow_null=True, default=None)
    settings = JsonObject(required=False, default=dict)
    destination = Text(max_length=100, required=False, allow_null=True, default=None)


class PreviewInput(StrictSerializer):
    """With a `message_id` (a message's `id` here) the jitter that this message would get is included.

    With `match` what is not set is inherited from the stored policies, else from what is built in.
    """

    preset = serializers.ChoiceField(choices=sorted(PRESETS), required=False, allow_null=True, default=None)
    settings = JsonObject(required=False, default=dict)
    failures = serializers.IntegerField(min_value=1, max_value=policies.MAX_PREVIEW)
    message_id = Identifier(required=False, allow_null=True, default=None)
    match = Text(max_length=255, required=False, allow_null=True, default=None)


class PolicyList(ApiView):
    """`/policies/`."""

    @contract(Permission.READ, "policies", {200: Paged(POLICY)})
    def get(self) -> Response:
        """List all policies by pattern."""
        return self.whole(POLICY, policies.list_policies(principal=self.principal))

    @contract(Permission.CONFIGURE, "policies", {201: POLICY}, body=PolicyInput, acts=True)
    def post(self) -> Response:
        """Create the policy of a pattern; 409 when the pattern has one."""
        self.principal.require_cover(self.body["match"])
        row = _saved(self.principal, self.body, expected_version=NEW)
        return self.created(POLICY, row, row.id)


class PolicyOne(ApiView):
    """`/policies/{id}/`."""

    @contract(Permission.READ, "policies", {200: POLICY})
    def get(self, policy_id: int) -> Response:
        """Show a policy as it was written."""
        return shown(POLICY, policies.get_policy(policy_id, principal=self.principal))

    @contract(Permission.CONFIGURE, "policies", {200: POLICY}, body=PolicyInput, decides=True)
    def put(self, policy_id: int) -> Response:
        """Replace a policy. Its pattern stays: another pattern is another policy."""
        row = policies.get_policy(policy_id, principal=self.reader)
        if self.body["match"] != row.match:
            raise serializers.ValidationError({"match": [f"This policy is that of {row.match}."]}, "immutable")
        return shown(POLICY, _saved(self.principal, self.body, expected_version=self.expected_version))

    @contract(Permission.CONFIGURE, "policies", {204: None})
    def delete(self, policy_id: int) -> Response:
        """Remove a policy; less specific policies are then in force."""
        policies.get_policy(policy_id, principal=self.reader)
        delete_policy(policy_id, principal=self.principal)
        return Response(status=204)


class PolicyHistory(ApiView):
    """`/policies/{id}/history/`."""

    @contract(Permission.READ, "policies", {200: Paged(POLICY_VERSION)})
    def get(self, policy_id: int) -> Response:
        """Show the latest two hundred versions of a policy, newest first: who, when, old and new values."""
        return self.whole(POLICY_VERSION, policy_history(policy_id, principal=self.principal))


class PolicyPreview(ApiView):
    """`/policies/preview/`."""

    @contract(Permission.READ, "policies", {200: PREVIEW}, body=PreviewInput)
    def post(self) -> Response:
        """Compute the wait before each redelivery, for a preset with settings over it. Nothing is saved."""
        fields = self.body
        found = policies.preview(
            fields["preset"],
            fields["settings"],
            fields["failures"],
            principal=self.principal,
            message_id=fields["message_id"],
            match=fields["match"],
        )
        return Response(PREVIEW.render(found))


class PolicyResolve(ApiView):
    """`/policies/resolve/`."""

    @contract(
        Permission.READ,
        "policies",
        {200: IN_FORCE},
        query=(pattern("address", "The address, known or not.", many=False, required=True),),
    )
    def get(self) -> Response:
        """Show the values in force on an address, and the pattern of each."""
        address = self.query["address"]
        found = policies.resolve_address(address, principal=self.principal)
        return Response(
            {
                "address": address,
                "policy": asdict(found.policy),
                "destination": found.destination,
                "origins": {name: origin._asdict() for name, origin in found.origins.items()},
            }
        )


def _saved(principal: Principal, fields: dict[str, Any], **more: Any) -> PolicyView:
    rest = {name: value for name, value in fields.items() if name != "match"}
    save_policy(fields["match"], **rest, principal=principal, **more)
    row = policies.find_policy(fields["match"])
    assert row is not None
    return row


urlpatterns = [
    route("policies/", PolicyList, name="api-policies"),
    route("policies/preview/", PolicyPreview, name="api-policy-preview"),
    route("policies/resolve/", PolicyResolve, name="api-policy-resolve"),
    route("policies/<id:policy_id>/", PolicyOne, name="api-policy"),
    route("policies/<id:policy_id>/history/", PolicyHistory, name="api-policy-history"),
]
