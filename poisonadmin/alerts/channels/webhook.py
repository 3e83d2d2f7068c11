"""Alerts by HTTP POST, signed as Standard Webhooks has it."""

from poisonadmin.alerts.channels.contract import AlertChannel, ChannelAnswer, HttpPost, Notice
from poisonadmin.alerts.channels.posts import answered, check_url
from poisonadmin.alerts.domain.notices import signature


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
    return answered(post(notice.to[0], headers, body))


WEBHOOK = AlertChannel("Webhook", "one URL", check_url, send, is_signed=True, gathers_seconds=0)
