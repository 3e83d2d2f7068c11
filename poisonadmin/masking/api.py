"""Masking rules: what which role may not read."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.masking.commands import delete_masking_rule, save_masking_rule
from poisonadmin.masking.domain import MaskingRuleFields
from poisonadmin.masking.queries import MaskingRuleRow, get_masking_rule, list_masking_rules
from poisonadmin.web.api.contract import Paged, SettingsInput, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

MASKING_RULE = Shape("MaskingRule", MaskingRuleRow)


class MaskingRuleInput(SettingsInput):
    """`match`, and at most one of `json_path`, `header`, `key` and `regex`; with none, messages are masked whole."""

    settings = settings_of(MaskingRuleFields)


class MaskingRuleList(ApiView):
    """`/masking-rules/`."""

    @contract(Permission.READ, "masking-rules", {200: Paged(MASKING_RULE)})
    def get(self) -> Response:
        """List the masking rules, by pattern."""
        return self.whole(MASKING_RULE, list_masking_rules(principal=self.principal))

    @contract(Permission.CONFIGURE, "masking-rules", {201: MASKING_RULE}, body=MaskingRuleInput, acts=True)
    def post(self) -> Response:
        """Add a masking rule, which holds from the next request on; 409 when there is one about the same."""
        row = save_masking_rule(MaskingRuleFields(**self.body), principal=self.principal)
        return self.created(MASKING_RULE, get_masking_rule(row.id, principal=self.reader), row.id)


class MaskingRuleOne(ApiView):
    """`/masking-rules/{id}/`."""

    @contract(Permission.READ, "masking-rules", {200: MASKING_RULE})
    def get(self, masking_rule_id: int) -> Response:
        """Show a masking rule."""
        return shown(MASKING_RULE, get_masking_rule(masking_rule_id, principal=self.principal))

    @contract(Permission.CONFIGURE, "masking-rules", {200: MASKING_RULE}, body=MaskingRuleInput, decides=True)
    def put(self, masking_rule_id: int) -> Response:
        """Replace a masking rule."""
        save_masking_rule(
            MaskingRuleFields(**self.body),
            principal=self.principal,
            rule_id=masking_rule_id,
            expected_version=self.expected_version,
        )
        return shown(MASKING_RULE, get_masking_rule(masking_rule_id, principal=self.reader))

    @contract(Permission.CONFIGURE, "masking-rules", {204: None})
    def delete(self, masking_rule_id: int) -> Response:
        """Remove a masking rule: what it has masked is read in the clear again."""
        delete_masking_rule(masking_rule_id, principal=self.principal)
        return Response(status=204)


urlpatterns = [
    route("masking-rules/", MaskingRuleList, name="api-masking-rules"),
    route("masking-rules/<id:masking_rule_id>/", MaskingRuleOne, name="api-masking-rule"),
]
