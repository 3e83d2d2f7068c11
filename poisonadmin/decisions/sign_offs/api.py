"""Rules that say which operations need a sign-off."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.errors import NEW
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.sign_offs.commands import delete_sign_off_rule, save_sign_off_rule
from poisonadmin.decisions.sign_offs.domain import SignOffLimit
from poisonadmin.decisions.sign_offs.queries import SignOffRuleRow, get_sign_off_rule, list_sign_off_rules
from poisonadmin.web.api.contract import Paged, SettingsInput, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

RULE = Shape("SignOffRule", SignOffRuleRow, kinds={"action": OperationAction | None})


class SignOffRuleFields(SettingsInput):
    """`above`: operations on more messages at the pattern need a sign-off; 0: all do."""

    settings = settings_of(SignOffLimit, but=("match", "action"))


class SignOffRuleInput(SettingsInput):
    """With the pattern of addresses, and the action; null: any."""

    settings = settings_of(SignOffLimit)


class SignOffRuleList(ApiView):
    """`/sign-off-rules/`."""

    @contract(Permission.READ, "sign-offs", {200: Paged(RULE)})
    def get(self) -> Response:
        """List the sign-off rules by pattern."""
        return self.whole(RULE, list_sign_off_rules(principal=self.principal))

    @contract(Permission.CONFIGURE, "sign-offs", {201: RULE}, body=SignOffRuleInput, acts=True)
    def post(self) -> Response:
        """Create a rule: larger operations wait for another person; 409 when pattern and action have one."""
        saved = save_sign_off_rule(**self.body, principal=self.principal, expected_version=NEW)
        return self.created(RULE, get_sign_off_rule(saved.id, principal=self.reader), saved.id)


class SignOffRuleOne(ApiView):
    """`/sign-off-rules/{id}/`."""

    @contract(Permission.READ, "sign-offs", {200: RULE})
    def get(self, sign_off_rule_id: int) -> Response:
        """Show a sign-off rule."""
        return shown(RULE, get_sign_off_rule(sign_off_rule_id, principal=self.principal))

    @contract(Permission.CONFIGURE, "sign-offs", {200: RULE}, body=SignOffRuleFields, decides=True)
    def put(self, sign_off_rule_id: int) -> Response:
        """Change the limit. Pattern and action stay: others are another rule."""
        row = get_sign_off_rule(sign_off_rule_id, principal=self.reader)
        version = self.expected_version
        save_sign_off_rule(row.match, row.action, **self.body, principal=self.principal, expected_version=version)
        return shown(RULE, get_sign_off_rule(sign_off_rule_id, principal=self.reader))

    @contract(Permission.CONFIGURE, "sign-offs", {204: None})
    def delete(self, sign_off_rule_id: int) -> Response:
        """Remove a sign-off rule. What waits because of it still waits."""
        get_sign_off_rule(sign_off_rule_id, principal=self.reader)
        delete_sign_off_rule(sign_off_rule_id, principal=self.principal)
        return Response(status=204)


urlpatterns = [
    route("sign-off-rules/", SignOffRuleList, name="api-sign-off-rules"),
    route("sign-off-rules/<id:sign_off_rule_id>/", SignOffRuleOne, name="api-sign-off-rule"),
]
