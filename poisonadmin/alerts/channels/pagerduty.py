"""Alerts as events of PagerDuty, one each: what begins triggers an incident, and its end resolves it."""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from poisonadmin.alerts.channels.contract import AlertChannel, ChannelAnswer, HttpPost, Notice
from poisonadmin.alerts.channels.posts import GONE, check_url, link_of, named_secret, post_json
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.kinds import KINDS, AlertKind
from poisonadmin.alerts.domain.notices import NoticeType
from poisonadmin.alerts.domain.rules import InvalidAlertRule

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
MAX_SUMMARY_CHARS = 1024
AT_ONCE = 5
_ROUTING_KEY = re.compile(r"[A-Za-z0-9]{32}")
_BAD_REQUEST = 400  # an event that is refused so is refused again
# Of what has an end, and waits for a person as a matter of course.
_WARNINGS = (AlertKind.SIGN_OFF_WAITS, AlertKind.OLDEST_UNDECIDED)


def check(to: Sequence[str]) -> list[str]:
    """Return the routing key, and the URL of the events; raise InvalidAlertRule, which does not repeat the key."""
    if not 1 <= len(to) <= 2 or not _ROUTING_KEY.fullmatch(to[0]):
        raise InvalidAlertRule(
            "to", "must be a routing key of 32 letters and digits, and perhaps the URL of the events."
        )
    return [to[0], *check_url(to[1:] or [EVENTS_URL])]


def hide(to: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the URL, which is no secret, and the routing key, which is."""
    return [to[1], f"routing key, {named_secret(to[0])}"], [to[0]]


def send(notice: Notice, post: HttpPost) -> ChannelAnswer:
    """Post the events of a notice, a few at once; an event that was taken before changes nothing.

    A test triggers an incident, and resolves it.
    """
    document = json.loads(notice.body)
    send_each = partial(post_json, post, notice.to[0], finals=(GONE, _BAD_REQUEST))
    answers: list[ChannelAnswer] = []

    def send_one(event: Mapping[str, Any]) -> None:
        if all(one.is_taken for one in answers):  # the next try begins anew: nobody waits for a receiver that hangs
            answers.append(send_each(event))

    for action in _actions(document["type"]):
        events = [_event(one, document, action, notice) for one in document["data"]["alerts"]]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(send_one, events))
    return next((one for one in answers if not one.is_taken), answers[-1])


def _actions(type_: str) -> tuple[str, ...]:
    if type_ == NoticeType.TEST:
        return ("trigger", "resolve")
    return ("resolve",) if type_ == NoticeType.RESOLVED else ("trigger",)


def _event(alert: Mapping[str, Any], document: Mapping[str, Any], action: str, notice: Notice) -> dict[str, Any]:
    """Return one event. Source: PagerDuty's description of its Events API v2."""
    data = document["data"]
    event = {
        "routing_key": notice.secrets[0],
        "event_action": action,
        # That of an alert is the same when it begins and when it is over.
        "dedup_key": f"poisonadmin/{one_line(data['installation'], 100)}/{alert['id'] or notice.webhook_id}",
    }
    if action == "resolve":
        return event
    link = link_of(alert)
    return {
        **event,
        "client": "PoisonAdmin",
        **({"client_url": link, "links": [{"href": link, "text": "Open in PoisonAdmin"}]} if link else {}),
        "payload": {
            "summary": one_line(alert["title"], MAX_SUMMARY_CHARS),
            "source": one_line(f"PoisonAdmin {data['installation']}"),
            "severity": _severity(alert["kind"]),
            "timestamp": alert["opened_at"],
            "class": alert["kind"],
            "group": one_line(data["rule"]),
            "custom_details": {**alert.get("facts", {}), "alerts_not_listed": data["more"]},
        },
    }


def _severity(kind: str) -> str:
    if kind not in KINDS or not KINDS[AlertKind(kind)].has_end:
        return "info"
    return "warning" if kind in _WARNINGS else "error"


PAGERDUTY = AlertChannel(
    "PagerDuty",
    "its routing key, and on another line the URL of the events where it is not events.pagerduty.com",
    check,
    send,
    is_signed=False,
    gathers_seconds=0,
    hide=hide,
)
