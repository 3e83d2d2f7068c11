"""Alerts by mail, through the server that POISONADMIN_MAIL_URL names."""

import json
from collections.abc import Sequence
from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email

from poisonadmin.alerts.channels.contract import AlertChannel, ChannelAnswer, HttpPost, Notice
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.notices import NoticeType
from poisonadmin.alerts.domain.rules import InvalidAlertRule

MAX_RECIPIENTS = 20
SHOWN_CHARS = 500
_SENDERS = {NoticeType.REPORT: "saved report"}


def check(to: Sequence[str]) -> list[str]:
    """Return the mail addresses; raise InvalidAlertRule, also where this installation sends no mail."""
    if not settings.EMAIL_HOST:
        raise InvalidAlertRule("channel", "this installation sends no mail: POISONADMIN_MAIL_URL is not set.")
    if not 1 <= len(to) <= MAX_RECIPIENTS:
        raise InvalidAlertRule("to", f"must be 1 to {MAX_RECIPIENTS} mail addresses.")
    for address in to:
        try:
            validate_email(address)
        except ValidationError:
            raise InvalidAlertRule("to", f"{address[:100]!r} is not a mail address.") from None
    return list(dict.fromkeys(to))


def send(notice: Notice, post: HttpPost) -> ChannelAnswer:  # noqa: ARG001  (all channels are given it)
    """Send one mail to all addresses."""
    document: dict[str, Any] = json.loads(notice.body)
    alerts: list[dict[str, Any]] = document["data"]["alerts"]
    count = len(alerts) + document["data"]["more"]
    rule = document["data"]["rule"]
    what = alerts[0]["title"] if count == 1 else f"{count:,} alerts by the rule {rule}"
    if document["type"] == NoticeType.RESOLVED:
        what = f"Resolved: {what}"
    sender = settings.DEFAULT_FROM_EMAIL
    mail = EmailMessage(
        subject=one_line(f"[PoisonAdmin {document['data']['installation']}] {what}", 200),
        body=_text(
            alerts, document["data"]["more"], f"{_SENDERS.get(document['type'], 'alert rule')} {one_line(rule)}"
        ),
        from_email=sender,
        to=list(notice.to),
        headers={
            "Message-ID": f"<{notice.webhook_id}@{_domain(sender)}>",
            "Auto-Submitted": "auto-generated",
        },
    )
    try:
        mail.send()
    except (SMTPException, OSError) as error:
        return ChannelAnswer(is_taken=False, text=one_line(f"{type(error).__name__}: {error}", SHOWN_CHARS))
    return ChannelAnswer(is_taken=True, text="The mail server has taken it.")


def _text(alerts: Sequence[dict[str, Any]], more: int, sender: str) -> str:
    parts = [
        "\n".join(
            [
                one["title"],
                f"  since {one['opened_at']}{', over since ' + one['resolved_at'] if one['resolved_at'] else ''}",
                *([f"  {one['url']}"] if one.get("url") else []),
            ]
        )
        for one in alerts
    ]
    if more:
        parts.append(f"And {more:,} more.")
    return "\n\n".join([*parts, f"Sent by the {sender}."]) + "\n"


def _domain(sender: str) -> str:
    return sender.rpartition("@")[2].strip(" >") or "localhost"


_NONE = "" if settings.EMAIL_HOST else " (this installation sends none)"
EMAIL = AlertChannel("E-mail" + _NONE, "mail addresses, one a line", check, send, is_signed=False, gathers_seconds=60)
