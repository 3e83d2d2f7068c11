"""Alerts in a channel of Microsoft Teams, by the webhook of a workflow, as an Adaptive Card."""

from collections.abc import Mapping
from typing import Any

from poisonadmin.alerts.channels.posts import CHAT_ALERTS, chat_channel, heading, link_of

CONTENT_TYPE = "application/vnd.microsoft.card.adaptive"
SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
VERSION = "1.2"


def message_of(notice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that shows a notice. Its texts are runs, in which no Markdown is read.

    Source: Microsoft's schema of Adaptive Cards; the message as the trigger of a Teams workflow takes it.
    """
    alerts, more = notice["data"]["alerts"], notice["data"]["more"]
    hidden = more + max(0, len(alerts) - CHAT_ALERTS)
    body = [_block({"text": heading(notice), "weight": "Bolder"})]
    for alert in alerts[:CHAT_ALERTS]:
        runs = [{"text": alert["title"]}]
        if link := link_of(alert):
            opens = {"type": "Action.OpenUrl", "url": link}
            runs += [{"text": " "}, {"text": "Open in PoisonAdmin", "color": "Accent", "selectAction": opens}]
        body.append(_block(*runs))
    if hidden:
        body.append(_block({"text": f"And {hidden:,} more."}))
    card = {"$schema": SCHEMA, "type": "AdaptiveCard", "version": VERSION, "body": body}
    return {"type": "message", "attachments": [{"contentType": CONTENT_TYPE, "contentUrl": None, "content": card}]}


def _block(*runs: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "separator": True, "inlines": [{"type": "TextRun", **run} for run in runs]}


TEAMS = chat_channel("Microsoft Teams", message_of)
