"""Alerts, and the rules by which they are sent."""

from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from poisonadmin.alerts.commands import rules as commands
from poisonadmin.alerts.domain.kinds import AlertDeliveryState, AlertKind, ChannelKind
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.alerts.queries.alerts import (
    AlertDeliveryRow,
    AlertRow,
    AlertRuleRow,
    AlertState,
    AlertTry,
    get_alert_delivery,
    get_alert_rule,
    list_alert_rules,
    list_alerts,
)
from poisonadmin.core.domain.access import Permission
from poisonadmin.core.domain.errors import NEW
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.web.api.contract import PAGE, Paged, SettingsInput, choice, contract, identifier
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route, shown

ALERT = Shape(
    "Alert",
    AlertRow,
    kinds={"kind": AlertKind, "delivery": AlertDeliveryState, "resolution": AlertDeliveryState | None},
)
ALERT_RULE = Shape("AlertRule", AlertRuleRow, kinds={"kinds": list[AlertKind], "channel": ChannelKind})
ALERT_DELIVERY = Shape(
    "AlertDelivery",
    AlertDeliveryRow,
    leave_out={"log"},
    also={"answers": list[AlertTry]},
    kinds={"state": AlertDeliveryState},
)
_SECRET = {"type": "string", "nullable": True, "description": "Of a new webhook; it is not shown again."}
NEW_ALERT_RULE = {
    "type": "object",
    "properties": {**ALERT_RULE.schema["properties"], "secret": _SECRET},
    "required": [*ALERT_RULE.schema["required"], "secret"],
}
SECRET = {"type": "object", "properties": {"secret": {"type": "string"}}, "required": ["secret"]}


class AlertRuleInput(SettingsInput):
    """`limits`: minutes by kind, for `group_grows_again`, `group_grows`, `oldest_undecided`, `overdue_deliveries`,
    `source_unreachable` and `operation_ended`. `growth`: what `group_grows` reports within them, failures such as `100`
    or a share of those before such as `20 %`. `search`: words of the search box, which narrow `oldest_undecided`.
    `to`: one URL for a webhook, mail addresses for e-mail, the webhook URL for Slack and Teams, for PagerDuty the
    routing key and perhaps the URL of its events. A secret in it is not shown again; what is shown instead, sent back,
    leaves it as it is.

    `quiet_from` and `quiet_until`: `HH:MM` in `time_zone`, both or neither. `send_resolved`: the end of alerts is sent,
    too.
    """

    settings = settings_of(AlertRuleFields, but=("name", "channel"))
    limits = serializers.DictField(child=serializers.IntegerField(), required=False, default=dict)


class NewAlertRuleInput(AlertRuleInput):
    """With its name and its channel, which stay."""

    settings = settings_of(AlertRuleFields)


class AlertList(ApiView):
    """`/alerts/`."""

    @contract(
        Permission.READ,
        "alerts",
        {200: Paged(ALERT)},
        query=(*PAGE, choice("state", AlertState, "`open` or `resolved`."), identifier("rule", "Of this rule only.")),
    )
    def get(self) -> Response:
        """List alerts of rules in scope, newest first, each with what it was sent with."""
        return self.listed(ALERT, list_alerts, rule_id=self.query["rule"], state=self.query["state"])


class AlertRuleList(ApiView):
    """`/alerts/rules/`."""

    @contract(Permission.READ, "alerts", {200: Paged(ALERT_RULE)})
    def get(self) -> Response:
        """List the alert rules by name."""
        return self.whole(ALERT_RULE, list_alert_rules(principal=self.principal))

    @contract(Permission.CONFIGURE, "alerts", {201: NEW_ALERT_RULE}, body=NewAlertRuleInput)
    def post(self) -> Response:
        """Create an alert rule; 409 when the name is taken. The secret of a webhook is in this answer only."""
        saved, secret = commands.save_alert_rule(
            AlertRuleFields(**self.body), principal=self.principal, expected_version=NEW
        )
        row = get_alert_rule(saved.id, principal=self.reader)
        response = self.created(ALERT_RULE, row, row.id)
        response.data["secret"] = secret
        return response


class AlertRuleOne(ApiView):
    """`/alerts/rules/{id}/`."""

    @contract(Permission.READ, "alerts", {200: ALERT_RULE})
    def get(self, alert_rule_id: int) -> Response:
        """Show an alert rule."""
        return shown(ALERT_RULE, get_alert_rule(alert_rule_id, principal=self.principal))

    @contract(Permission.CONFIGURE, "alerts", {200: ALERT_RULE}, body=AlertRuleInput, decides=True)
    def put(self, alert_rule_id: int) -> Response:
        """Replace all of an alert rule but its name, its channel and its secret."""
        before = get_alert_rule(alert_rule_id, principal=self.reader)
        fields = AlertRuleFields(name=before.name, channel=before.channel, **self.body)
        commands.save_alert_rule(fields, principal=self.principal, expected_version=self.expected_version)
        return shown(ALERT_RULE, get_alert_rule(alert_rule_id, principal=self.reader))

    @contract(Permission.CONFIGURE, "alerts", {204: None})
    def delete(self, alert_rule_id: int) -> Response:
        """Remove an alert rule with its alerts."""
        commands.delete_alert_rule(alert_rule_id, principal=self.principal)
        return Response(status=204)


class AlertRuleTest(ApiView):
    """`/alerts/rules/{id}/test/`."""

    @contract(Permission.CONFIGURE, "alerts", {202: ALERT_DELIVERY}, acts=True)
    def post(self, alert_rule_id: int) -> Response:
        """Send a test alert within seconds; its delivery has the receiver's answer then."""
        delivery_id = commands.send_test(alert_rule_id, principal=self.principal)
        return self._shown(delivery_id)

    def _shown(self, delivery_id: int) -> Response:
        row = get_alert_delivery(delivery_id, principal=self.reader)
        location = self.request.build_absolute_uri(f"../../../deliveries/{row.id}/")
        return Response(ALERT_DELIVERY.render(row), status=202, headers={"Location": location})


class AlertRuleSecret(ApiView):
    """`/alerts/rules/{id}/secret/`."""

    @contract(Permission.CONFIGURE, "alerts", {200: SECRET})
    def post(self, alert_rule_id: int) -> Response:
        """Give a webhook a new secret, which is in this answer only. The old one signs too for a day."""
        return Response({"secret": commands.rotate_secret(alert_rule_id, principal=self.principal)})


class AlertDeliveryOne(ApiView):
    """`/alerts/deliveries/{id}/`."""

    @contract(Permission.READ, "alerts", {200: ALERT_DELIVERY})
    def get(self, alert_delivery_id: int) -> Response:
        """Show how alerts were sent: each try, and its answer."""
        return Response(ALERT_DELIVERY.render(get_alert_delivery(alert_delivery_id, principal=self.principal)))


class AlertDeliveryResend(ApiView):
    """`/alerts/deliveries/{id}/resend/`."""

    @contract(Permission.CONFIGURE, "alerts", {200: ALERT_DELIVERY}, acts=True)
    def post(self, alert_delivery_id: int) -> Response:
        """Send a delivery again, with the same id and content."""
        commands.resend(alert_delivery_id, principal=self.principal)
        return Response(ALERT_DELIVERY.render(get_alert_delivery(alert_delivery_id, principal=self.reader)))


urlpatterns: list[Any] = [
    route("alerts/", AlertList, name="api-alerts"),
    route("alerts/rules/", AlertRuleList, name="api-alert-rules"),
    route("alerts/rules/<id:alert_rule_id>/", AlertRuleOne, name="api-alert-rule"),
    route("alerts/rules/<id:alert_rule_id>/test/", AlertRuleTest, name="api-alert-rule-test"),
    route("alerts/rules/<id:alert_rule_id>/secret/", AlertRuleSecret, name="api-alert-rule-secret"),
    route("alerts/deliveries/<id:alert_delivery_id>/", AlertDeliveryOne, name="api-alert-delivery"),
    route("alerts/deliveries/<id:alert_delivery_id>/resend/", AlertDeliveryResend, name="api-alert-delivery-resend"),
]
