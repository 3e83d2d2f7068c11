"""What the page of alerts shows: rules, one of which fails, and alerts that were sent, held and given up."""

from poisonadmin.alerts.channels.contract import PostAnswer
from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.rules import save_alert_rule
from poisonadmin.alerts.commands.send import send_due
from poisonadmin.alerts.domain.kinds import KINDS
from poisonadmin.alerts.domain.rules import AlertRuleFields
from poisonadmin.core.domain.access import SYSTEM


def make_alerts() -> None:
    """Add all of it to an installation that has failure groups and a stopped address."""
    for name, kinds, host, limits in (
        ("night watch", list(KINDS), "hooks.example.org", {"oldest_undecided": 240}),
        ("payments on call", ["address_stopped", "overdue_deliveries"], "pager.example.com", {}),
    ):
        fields = AlertRuleFields(
            name=name,
            kinds=kinds,
            channel="webhook",
            to=[f"https://{host}/poisonadmin"],
            addresses=["#"] if len(kinds) > 2 else ["payments.#"],
            limits=limits,
            quiet_from="22:00" if len(kinds) > 2 else None,
            quiet_until="22:01" if len(kinds) > 2 else None,
            time_zone="Europe/Berlin",
        )
        save_alert_rule(fields, principal=SYSTEM)
    record_alerts()
    send_due(lambda url, *_: PostAnswer(503, "maintenance until 6:00") if "pager" in url else PostAnswer(204, ""))
