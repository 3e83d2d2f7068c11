"""Rules before and after deliveries."""

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.rules import commands, queries
from poisonadmin.rules.domain.rules import RuleFields, Stage
from poisonadmin.runs.domain.kinds import RunState
from poisonadmin.web.api.contract import (
    JsonObject,
    Moment,
    Paged,
    ReasonInput,
    SettingsInput,
    StrictSerializer,
    choice,
    contract,
)
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

RULE = Shape("Rule", queries.RuleRow, kinds={"stage": Stage})
DRY_RUN = Shape("DryRun", queries.DryRunRow, kinds={"state": RunState})


class RuleInput(SettingsInput):
    """A rule; docs/use/rules.md lists what `match` and `action` may hold. `owner`: by default who saves it."""

    settings = settings_of(RuleFields)
    match = JsonObject(required=False, default=dict)
    action = JsonObject()
    ends_at = Moment(required=False, allow_null=True, default=None)


class NewRuleInput(RuleInput):
    """A new rule, which comes last in its stage and is switched off."""

    stage = serializers.ChoiceField(choices=[str(stage) for stage in Stage])


class RuleMoveInput(StrictSerializer):
    """The rule's new place in its stage's table, 1 the first."""

    position = serializers.IntegerField(min_value=1, max_value=1_000_000)


class RuleEnableInput(ReasonInput):
    """`without_dry_run`: switch a rule on that no dry run has looked at as it is; the audit log says so."""

    without_dry_run = serializers.BooleanField(required=False, default=False)


class RuleList(ApiView):
    """`/rules/`."""

    @contract(
        Permission.READ,
        "rules",
        {200: Paged(RULE)},
        query=(choice("stage", Stage, "Before deliveries, or after failures."),),
    )
    def get(self) -> Response:
        """List the rules in the order in which they apply, those before deliveries first."""
        return self.whole(RULE, queries.list_rules(principal=self.principal, stage=self.query["stage"]))

    @contract(Permission.CONFIGURE, "rules", {201: RULE}, body=NewRuleInput, acts=True)
    def post(self) -> Response:
        """Add a rule, switched off; 409 when the name is taken."""
        stage = self.body["stage"]
        row = commands.create_rule(stage, _fields(self.body), principal=self.principal)
        made = queries.get_rule(row.id, principal=self.reader)
        return self.created(RULE, made, row.id)


class RuleOne(ApiView):
    """`/rules/{id}/`."""

    @contract(Permission.READ, "rules", {200: RULE})
    def get(self, rule_id: int) -> Response:
        """Show a rule, and how often it has decided."""
        return _shown(rule_id, self.principal)

    @contract(Permission.CONFIGURE, "rules", {200: RULE}, body=RuleInput, decides=True)
    def put(self, rule_id: int) -> Response:
        """Replace a rule. A change of condition or action switches a rule before deliveries off."""
        commands.replace_rule(
            rule_id, _fields(self.body), principal=self.principal, expected_version=self.expected_version
        )
        return _shown(rule_id, self.reader)

    @contract(Permission.CONFIGURE, "rules", {204: None})
    def delete(self, rule_id: int) -> Response:
        """Remove a rule."""
        commands.delete_rule(rule_id, principal=self.principal)
        return Response(status=204)


class RuleMove(ApiView):
    """`/rules/{id}/move/`."""

    @contract(Permission.CONFIGURE, "rules", {200: RULE}, body=RuleMoveInput, acts=True)
    def post(self, rule_id: int) -> Response:
        """Move a rule to another place in its table; the first rule that matches decides."""
        queries.get_rule(rule_id, principal=self.reader)
        commands.move_rule(rule_id, self.body["position"], principal=self.principal)
        return _shown(rule_id, self.reader)


class RuleEnable(ApiView):
    """`/rules/{id}/enable/`."""

    @contract(Permission.CONFIGURE, "rules", {200: RULE}, body=RuleEnableInput, acts=True)
    def post(self, rule_id: int) -> Response:
        """Switch a rule on; 409 `not_dry_run` for a rule before deliveries without a dry run of this version."""
        fields = self.body
        commands.enable_rule(
            rule_id, principal=self.principal, reason=fields["reason"], override=fields["without_dry_run"]
        )
        return _shown(rule_id, self.reader)


class RuleDisable(ApiView):
    """`/rules/{id}/disable/`."""

    @contract(Permission.CONFIGURE, "rules", {200: RULE}, body=ReasonInput, acts=True)
    def post(self, rule_id: int) -> Response:
        """Switch a rule off."""
        commands.disable_rule(rule_id, principal=self.principal, reason=self.body["reason"])
        return _shown(rule_id, self.reader)


class RuleDryRun(ApiView):
    """`/rules/{id}/dry_run/`."""

    @contract(Permission.READ, "rules", {200: DRY_RUN})
    def get(self, rule_id: int) -> Response:
        """Show the latest dry run of a rule, ended or not; 404 when there is none."""
        return Response(DRY_RUN.render(queries.latest_dry_run(rule_id, principal=self.principal)))

    @contract(Permission.CONFIGURE, "rules", {202: DRY_RUN}, acts=True)
    def post(self, rule_id: int) -> Response:
        """Start a dry run of a rule on all waiting and undecided messages; nothing is changed.

        Where the rule as it is is being tried already, that run is shown.
        """
        commands.request_dry_run(rule_id, principal=self.principal)
        found = queries.latest_dry_run(rule_id, principal=self.reader)
        response = Response(DRY_RUN.render(found), status=202)
        response["Location"] = self.request.build_absolute_uri()
        return response


def _fields(body: dict[str, Any]) -> RuleFields:
    return RuleFields(**{name: value for name, value in body.items() if name != "stage"})


def _shown(rule_id: int, principal: Principal) -> Response:
    return shown(RULE, queries.get_rule(rule_id, principal=principal))


urlpatterns = [
    route("rules/", RuleList, name="api-rules"),
    route("rules/<id:rule_id>/", RuleOne, name="api-rule"),
    route("rules/<id:rule_id>/move/", RuleMove, name="api-rule-move"),
    route("rules/<id:rule_id>/enable/", RuleEnable, name="api-rule-enable"),
    route("rules/<id:rule_id>/disable/", RuleDisable, name="api-rule-disable"),
    route("rules/<id:rule_id>/dry_run/", RuleDryRun, name="api-rule-dry-run"),
]
