"""Alerts in a channel of Slack, by an incoming webhook, as blocks of its Block Kit."""

from collections.abc import Mapping
from typing import Any

from poisonadmin.alerts.channels.posts import CHAT_ALERTS, chat_channel, heading, link_of

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def message_of(notice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that shows a notice. Nothing of a stranger in it is a link, or calls anybody.

    Source: Slack's reference of incoming webhooks, blocks and text objects.
    """
    alerts, more = notice["data"]["alerts"], notice["data"]["more"]
    head, hidden = heading(notice), more + max(0, len(alerts) - CHAT_ALERTS)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": {"type": "plain_text", "text": head, "emoji": False}}]
    for alert in alerts[:CHAT_ALERTS]:
        link = link_of(alert)
        text = alert["title"].translate(_ESCAPES) + (f"\n<{link}|Open in PoisonAdmin>" if link else "")
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}})
    if hidden:
        text = f"And {hidden:,} more."
        blocks.append({"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}})
    return {"text": head.translate(_ESCAPES), "blocks": blocks}


SLACK = chat_channel("Slack", message_of)
