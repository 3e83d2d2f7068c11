"""Alerts by HTTP POST, signed as Standard Webhooks has it."""

import os
from collections.abc import Sequence

from poisonadmin.alerts.channels.contract import AlertChannel, ChannelAnswer, HttpPost, Notice
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.notices import signature
from poisonadmin.alerts.domain.rules import InvalidAlertRule
from poisonadmin.core.domain.ssrf import guard_from
from poisonadmin.destinations.domain.http_config import InvalidDestination, validate_url

SHOWN_CHARS = 500
# The receiver wants nothing more of it, says the specification.
GONE = 410


def check(to: Sequence[str]) -> list[str]:
    """Return the one URL; raise InvalidAlertRule for one that deliveries may not go to either."""
    if len(to) != 1:
        raise InvalidAlertRule("to", "must be one URL.")
    try:
        return [validate_url(to[0], guard=guard_from(os.environ))]
    except InvalidDestination as error:
        raise InvalidAlertRule("to", f"{error.reason}.") from None


def send(notice: Notice, post: HttpPost) -> ChannelAnswer:
    """Post the notice once; a status 2xx takes it."""
    body, timestamp = notice.body.encode(), int(notice.at.timestamp())
    signed = signature(notice.secrets, webhook_id=notice.webhook_id, timestamp=timestamp, body=body)
    headers = {
        "Content-Type": "application/json",
        "webhook-id": notice.webhook_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signed,
    }
    answer = post(notice.to[0], headers, body)
    text = one_line(answer.text, SHOWN_CHARS)
    if answer.status is None:
        return ChannelAnswer(is_taken=False, text=text)
    words = f"HTTP {answer.status}{f': {text}' if text else ''}"
    return ChannelAnswer(200 <= answer.status < 300, words, is_final=answer.status == GONE)


WEBHOOK = AlertChannel("Webhook", "one URL", check, send, is_signed=True, gathers_seconds=0)
