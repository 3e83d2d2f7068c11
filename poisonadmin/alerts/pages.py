"""Alerts: what was reported and how that was sent, and the rules."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from django.contrib import messages as notes
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.commands import rules as commands
from poisonadmin.alerts.domain.kinds import KINDS, AlertKind, ChannelKind
from poisonadmin.alerts.domain.rules import MAX_NAME_CHARS, AlertRuleFields
from poisonadmin.alerts.queries.alerts import (
    AlertRuleRow,
    AlertState,
    get_alert_delivery,
    get_alert_rule,
    list_alert_rules,
    list_alerts,
)
from poisonadmin.alerts.queries.operations import OPERATION_CONDITIONS
from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import InvalidFilter, number
from poisonadmin.core.domain.settings import Setting, settings_of
from poisonadmin.web.pages.forms import saved_or_shown, ticks, whole_number
from poisonadmin.web.pages.setting_fields import SettingsForm
from poisonadmin.web.pages.views import Section, SidebarEntry, page, pager

_NOTES = {
    **dict.fromkeys(OPERATION_CONDITIONS, "Only where all addresses of the operation match."),
    AlertKind.OVERDUE_DELIVERIES: "On addresses that deliver; messages of operations are not counted.",
    AlertKind.GROUP_GROWS: "By the growth below; groups that are snoozed are left out.",
    AlertKind.SOURCE_UNREACHABLE: "Sources belong to no address.",
}


_SETTINGS = settings_of(AlertRuleFields)


class AlertRuleForm(SettingsForm):
    """An alert rule. For each kind a box to tick, and its limit where it has one."""

    object_type = "alert_rule"
    keeps = ("name", "channel")
    layout: ClassVar[tuple[tuple[str, str], ...]] = (
        ("", "name is_enabled channel to"),
        ("Reports", " ".join(f"on_{kind}" for kind in KINDS)),
        ("Limits, in minutes", " ".join(f"limit_{kind}" for kind in KINDS)),
        ("Growth", "growth"),
        ("Narrowed to", "addresses matching"),
    )
    rest = "When it sends"
    settings: ClassVar[Mapping[str, Setting]] = {
        **settings_of(AlertRuleFields, but=("kinds", "limits", "search")),
        "channel": replace(_SETTINGS["channel"], words={kind: channel.words for kind, channel in CHANNELS.items()}),
        "to": replace(
            _SETTINGS["to"], note=f"{'; '.join(f'{one.words}: {one.to_words}' for one in CHANNELS.values())}."
        ),
        "matching": _SETTINGS["search"],
    }

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        row: AlertRuleRow | None = None,
        *,
        principal: Principal,
        prepared: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, row, initial=prepared)
        self.principal = principal
        for kind, info in KINDS.items():
            is_on = row is None and (info.has_search or not prepared)
            self.fields[f"on_{kind}"] = ticks(info.words, _NOTES.get(kind, ""), initial=is_on)
            if info.limit is not None:
                self.fields[f"limit_{kind}"] = whole_number(info.limit.words, initial=info.limit.default)
        if row is not None:
            self.initial.update({f"on_{kind}": kind in row.kinds for kind in KINDS})
            self.initial.update({f"limit_{kind}": minutes for kind, minutes in row.limits.items()})
            self.initial["matching"] = row.search

    def rule(self) -> AlertRuleFields:
        """Return the rule as typed."""
        typed, values = self.cleaned_data, self.values()
        kinds = [str(kind) for kind in KINDS if typed.get(f"on_{kind}")]
        limits = {kind: typed[name] for kind in kinds if typed.get(name := f"limit_{kind}") is not None}
        search = values.pop("matching")
        return AlertRuleFields(**values, kinds=kinds, limits=limits, search=search)

    def check(self) -> None:
        """Raise what the command would refuse."""
        commands.check_alert_rule(self.rule(), principal=self.principal)

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error; that of the kinds is the first box, that of a limit the limit."""
        name = super().field_of(error)
        if name == "search":  # an id that the search box of every page has
            return "matching"
        if name == "kinds":
            return f"on_{next(iter(KINDS))}"
        if name == "limits":
            named = getattr(error, "reason", "").partition(":")[0]
            return f"limit_{named}"
        return name


@page(filters=("state", "rule"), sidebar=SidebarEntry(Section.SYSTEM, 30, "Alerts", "bell", "w"), topic="use/alerts")
def show_all(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the rules, and the recent alerts with how they were sent."""
    state, rule = request.GET.get("state"), request.GET.get("rule")
    if state is not None and state not in list(AlertState):
        raise InvalidFilter("state", f"state is one of {', '.join(AlertState)}, not {state[:40]!r}.")
    found = list_alerts(
        principal=principal,
        rule_id=None if rule is None else number("rule", rule),
        state=state,
        cursor=request.GET.get("cursor"),
    )
    rules = list_alert_rules(principal=principal)
    context = {
        "rules": [(row, _kinds(row)) for row in rules],
        "failing": [row for row in rules if row.failing_since and row.is_enabled],
        "rows": [(row, KINDS[AlertKind(row.kind)].words) for row in found.results],
        "pager": pager(request, found),
        "state": state,
        "states": list(AlertState),
        "is_narrowed": bool(state or rule),
    }
    return render(request, "alerts/alerts.html", context)


@page(Permission.CONFIGURE)
def edit(request: HttpRequest, principal: Principal, alert_rule_id: int | None = None) -> HttpResponseBase:
    """Show the form of a rule, and save it when it is sent; a new webhook's secret is shown then, once."""
    row = None if alert_rule_id is None else get_alert_rule(alert_rule_id, principal=principal)
    prepared = {} if row else _prepared(request)
    form = AlertRuleForm(
        request.POST if request.method == "POST" else None, row, principal=principal, prepared=prepared
    )
    secrets: list[tuple[int, str]] = []

    def save() -> str:
        fields = form.rule()
        saved, secret = commands.save_alert_rule(fields, principal=principal, expected_version=form.expected_version())
        notes.success(request, f"The alert rule {fields.name} is saved.")
        if secret is not None:
            secrets.append((saved.id, secret))
        return reverse("alerts-rule", args=[saved.id])

    def context() -> dict[str, Any]:
        signed = row is not None and CHANNELS[ChannelKind(row.channel)].is_signed
        return {"rule": row, "is_signed": signed}

    answer = saved_or_shown(request, form, save, "alerts/alert_rule.html", context)
    return _secret_page(request, principal, *secrets[0]) if secrets else answer


def _prepared(request: HttpRequest) -> dict[str, Any]:
    """Return what a link has prepared of a new rule: a `search`, and the `address` patterns that it is about."""
    if not (search := request.GET.get("search", "")):
        return {}
    name = f"Messages with {search}"[:MAX_NAME_CHARS]
    addresses = request.GET.getlist("address") or [ANY_WORDS]
    return {"matching": search, "name": name, "addresses": addresses, f"limit_{AlertKind.OLDEST_UNDECIDED}": 1}


@require_POST
@page(Permission.CONFIGURE)
def change_secret(request: HttpRequest, principal: Principal, alert_rule_id: int) -> HttpResponseBase:
    """Make a new secret and show it once."""
    get_alert_rule(alert_rule_id, principal=principal)
    return _secret_page(request, principal, alert_rule_id, commands.rotate_secret(alert_rule_id, principal=principal))


def _secret_page(request: HttpRequest, principal: Principal, rule_id: int, secret: str) -> HttpResponseBase:
    rule = get_alert_rule(rule_id, principal=principal)
    return render(request, "alerts/secret.html", {"rule": rule, "secret": secret})


@require_POST
@page(Permission.CONFIGURE)
def send_test(_request: HttpRequest, principal: Principal, alert_rule_id: int) -> HttpResponseBase:
    """Send a test alert, and show what the receiver answers."""
    get_alert_rule(alert_rule_id, principal=principal)
    delivery_id = commands.send_test(alert_rule_id, principal=principal)
    return HttpResponseRedirect(reverse("alerts-delivery", args=[delivery_id]))


@page()
def show_delivery(request: HttpRequest, principal: Principal, alert_delivery_id: int) -> HttpResponseBase:
    """Show each try of a delivery, and follow it until it is answered."""
    row = get_alert_delivery(alert_delivery_id, principal=principal)
    is_part = bool(getattr(request, "htmx", False))
    template = "alerts/_delivery.html" if is_part else "alerts/delivery.html"
    is_running = row.state == "waiting" and not row.is_held and not row.answers
    return render(request, template, {"delivery": row, "is_running": is_running})


@require_POST
@page(Permission.CONFIGURE)
def resend(request: HttpRequest, principal: Principal, alert_delivery_id: int) -> HttpResponseBase:
    """Send a delivery again."""
    get_alert_delivery(alert_delivery_id, principal=principal)
    commands.resend(alert_delivery_id, principal=principal)
    notes.success(request, "It is sent again within seconds.")
    return HttpResponseRedirect(reverse("alerts-delivery", args=[alert_delivery_id]))


@require_POST
@page(Permission.CONFIGURE)
def delete(request: HttpRequest, principal: Principal, alert_rule_id: int) -> HttpResponseBase:
    """Remove a rule."""
    row = get_alert_rule(alert_rule_id, principal=principal)
    commands.delete_alert_rule(alert_rule_id, principal=principal)
    notes.success(request, f"The alert rule {row.name} is deleted.")
    return HttpResponseRedirect(reverse("alerts"))


def _kinds(row: AlertRuleRow) -> list[str]:
    return [KINDS[AlertKind(kind)].words for kind in row.kinds]


urlpatterns = [
    path("alerts/", show_all, name="alerts"),
    path("alerts/rules/new/", edit, name="alerts-new"),
    path("alerts/rules/<int:alert_rule_id>/", edit, name="alerts-rule"),
    path("alerts/rules/<int:alert_rule_id>/test/", send_test, name="alerts-test"),
    path("alerts/rules/<int:alert_rule_id>/secret/", change_secret, name="alerts-secret"),
    path("alerts/rules/<int:alert_rule_id>/delete/", delete, name="alerts-delete"),
    path("alerts/deliveries/<int:alert_delivery_id>/", show_delivery, name="alerts-delivery"),
    path("alerts/deliveries/<int:alert_delivery_id>/resend/", resend, name="alerts-resend"),
]
