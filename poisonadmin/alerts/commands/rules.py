"""Saving and removing alert rules, their secrets, and test alerts."""

import secrets as random
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connection, transaction
from django.db.models.functions import Now

from poisonadmin.alerts.channels.contract import AlertChannel
from poisonadmin.alerts.channels.registry import CHANNELS
from poisonadmin.alerts.domain.kinds import AlertDeliveryState, ChannelKind
from poisonadmin.alerts.domain.notices import SECRET_BYTES, secret_text
from poisonadmin.alerts.domain.rules import (
    AlertRuleFields,
    InvalidAlertRule,
    belongs_to_addresses,
    checked_fields,
    checked_search,
)
from poisonadmin.alerts.queries.alerts import sees_rule
from poisonadmin.alerts.queries.searched import require_searchable
from poisonadmin.core.commands import audit, configured
from poisonadmin.core.domain.access import NotAllowed, Permission, Principal
from poisonadmin.core.domain.errors import NotFound, PoisonAdminError
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.core.domain.settings import InvalidValue
from poisonadmin.search.domain.filters import fields_of
from poisonadmin.store.models.alert import AlertDelivery, AlertRule

# A receiver that knows one of the two secrets is enough, so that it can be changed there in peace.
OLD_SECRET_DAYS = 1


class AlertRuleDisabled(PoisonAdminError):
    """Raised when something is to be sent again by a rule that is switched off."""

    code = "alert_rule_disabled"
    status = 409


class AlertNotSettled(PoisonAdminError):
    """Raised when something is to be sent again that waits to be sent."""

    code = "alert_not_settled"
    status = 409


def check_alert_rule(fields: AlertRuleFields, *, principal: Principal) -> AlertRuleFields:
    """Return the fields as they are stored; raise InvalidAlertRule, NotAllowed."""

    def search() -> str:
        found = checked_search(fields.search, fields.kinds)
        try:
            if found:
                require_searchable(found, principal)
        except InvalidFilter as error:
            raise InvalidValue(error.detail) from None
        return found

    instead: dict[str, Any] = {"search": search}
    if fields.channel in list(ChannelKind):
        instead["to"] = lambda: list(fields.to) if _keeps_place(fields) else _channel(fields).check(fields.to)
    return checked_fields(fields, instead)


def _channel(fields: AlertRuleFields) -> AlertChannel:
    return CHANNELS[ChannelKind(fields.channel)]


def _keeps_place(fields: AlertRuleFields) -> bool:
    """Return whether the rule of this name is to send where it does, of which the receiver shows a part only."""
    same = AlertRule.objects.filter(name=fields.name, channel=fields.channel, to=list(fields.to))
    return _channel(fields).hide is not None and same.exists()


def save_alert_rule(
    fields: AlertRuleFields, *, principal: Principal, expected_version: int | None = None
) -> tuple[AlertRule, str | None]:
    """Create or replace the alert rule of this name; return it, and the secret of a new webhook, which is not shown
    again.

    Errors: `NotAllowed`, `NotFound`, `InvalidAlertRule`, `AlreadyExists`, `PreconditionFailed`.
    """
    require_scope(principal, fields)
    values = vars(check_alert_rule(fields, principal=principal))
    channel = _channel(fields)
    secrets = [_new_secret()] if channel.is_signed else []
    hidden: dict[str, Any] = {}
    if channel.hide is not None and not _keeps_place(fields):
        shown, secrets = channel.hide(values["to"])
        values = {**values, "to": shown}
        hidden = {"secrets": secrets}

    def write(before: AlertRule | None) -> dict[str, Any]:
        if before is None:
            return {**values, "owner": principal.name, "secrets": secrets}
        if before.channel != fields.channel:
            raise InvalidAlertRule("channel", "cannot be changed; make another rule.")
        return {**values, **hidden, "owner": principal.name}

    row = configured.save(
        AlertRule,
        {"name": fields.name},
        write,
        principal=principal,
        expected_version=expected_version,
        audited=values,
        shortened={"search": lambda text: fields_of({"q": [text or ""]})},
        require_seen=lambda row: require_in_scope(row, row.id, principal),
    )
    return row, secrets[0] if channel.is_signed and row.version == 1 else None


def require_scope(principal: Principal, fields: AlertRuleFields) -> None:
    """Raise NotAllowed for who may not configure, or not what such a rule watches."""
    principal.require(Permission.CONFIGURE)
    if principal.sees_everything:
        return
    try:
        whole = checked_fields(fields)
    except InvalidAlertRule:
        return  # the mistake is shown instead; nothing is saved
    if not belongs_to_addresses(whole.kinds):
        raise NotAllowed(f"Sources belong to no address, and {principal.name} is limited to some addresses.")
    for pattern in whole.addresses:
        principal.require_cover(pattern)


_DELETE = (
    "DELETE FROM alert WHERE rule_id = %s",
    "DELETE FROM alert_delivery WHERE rule_id = %s",
    "DELETE FROM alert_rule WHERE id = %s",
)


def delete_alert_rule(rule_id: int, *, principal: Principal) -> None:
    """Remove a rule with its alerts and their deliveries. Errors: `NotAllowed`, `NotFound`."""
    with transaction.atomic(), connection.cursor() as cursor:
        row = _locked(rule_id, principal)
        for statement in _DELETE:
            cursor.execute(statement, [row.id])
        audit.record(principal.name, "alert_rule.deleted", "alert_rule", row.name)


def rotate_secret(rule_id: int, *, principal: Principal) -> str:
    """Give a webhook a new secret and return it; for a day, deliveries are signed with the old one as well.

    Errors: `NotAllowed`, `NotFound`, `InvalidAlertRule` (its channel has no secret).
    """
    with transaction.atomic():
        row = _locked(rule_id, principal)
        if not CHANNELS[ChannelKind(row.channel)].is_signed:
            raise InvalidAlertRule("channel", f"{row.channel} has no secret.")
        secret = _new_secret()
        until = Now() + timedelta(days=OLD_SECRET_DAYS)
        AlertRule.objects.filter(id=row.id).update(secrets=[secret, *row.secrets[:1]], old_secret_until=until)
        audit.record(principal.name, "alert_rule.secret_changed", "alert_rule", row.name)
    return secret


def send_test(rule_id: int, *, principal: Principal) -> int:
    """Have a test alert sent within seconds, also by a rule that is switched off; return its delivery's id.

    While one waits there is no second. Errors: `NotAllowed`, `NotFound`.
    """
    with transaction.atomic():
        row = _locked(rule_id, principal)
        waiting = AlertDelivery.objects.filter(rule=row, is_test=True, state=AlertDeliveryState.WAITING).first()
        if waiting is not None:
            return waiting.id
        made = AlertDelivery.objects.create(rule=row, is_test=True, webhook_id=new_webhook_id())
        audit.record(principal.name, "alert_rule.tested", "alert_rule", row.name)
    return made.id


def resend(delivery_id: int, *, principal: Principal) -> None:
    """Send a delivery again, with the same id and content, and as many tries as at first.

    Errors: `NotAllowed`, `NotFound`, `AlertRuleDisabled`, `AlertNotSettled`.
    """
    principal.require(Permission.CONFIGURE)
    with transaction.atomic():
        missing = f"There is no alert delivery {delivery_id}."
        rule_ids = AlertDelivery.objects.filter(id=delivery_id).values_list("rule_id", flat=True)
        rule = _locked(rule_ids.first() or 0, principal, missing=missing)  # first the rule, as everywhere
        found = AlertDelivery.objects.select_for_update().filter(id=delivery_id).first()
        if found is None:
            raise NotFound(missing)
        if not rule.is_enabled and not found.is_test:
            raise AlertRuleDisabled(f"The rule {rule.name} is switched off. Switch it on to send its alerts.")
        if found.state == AlertDeliveryState.WAITING and not found.tries:
            raise AlertNotSettled("It waits to be sent already.")
        AlertDelivery.objects.filter(id=found.id).update(
            state=AlertDeliveryState.WAITING, is_held=False, tries=0, due_at=Now()
        )
        audit.record(principal.name, "alert.resent", "alert_rule", rule.name, details={"delivery": str(found.id)})


def require_in_scope(
    row: AlertRule | None, rule_id: int, principal: Principal, missing: str | None = None
) -> AlertRule:
    """Return the rule; raise NotFound where there is none, or none in scope."""
    if row is None or not sees_rule(principal, row.kinds, row.addresses):
        raise NotFound(missing or f"There is no alert rule {rule_id}.")
    return row


def new_webhook_id() -> str:
    """Return an id that no other delivery has."""
    return f"msg_{uuid4().hex}"


def _locked(rule_id: int, principal: Principal, *, missing: str | None = None) -> AlertRule:
    principal.require(Permission.CONFIGURE)
    row = AlertRule.objects.select_for_update().filter(id=rule_id).first()
    return require_in_scope(row, rule_id, principal, missing)


def _new_secret() -> str:
    return secret_text(random.token_bytes(SECRET_BYTES))
