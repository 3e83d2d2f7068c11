"""Parts of the channels that send by HTTP POST: the check of a URL, what is shown of it, and the answer's meaning."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from yarl import URL

from poisonadmin.alerts.channels.contract import AlertChannel, ChannelAnswer, HttpPost, Notice, PostAnswer
from poisonadmin.alerts.domain.conditions import one_line
from poisonadmin.alerts.domain.notices import NoticeType
from poisonadmin.alerts.domain.rules import InvalidAlertRule
from poisonadmin.core.domain.ssrf import guard_from
from poisonadmin.destinations.domain.http_config import InvalidDestination, validate_url

SHOWN_CHARS = 500
# A chat shows so many alerts of a notice, and counts the rest.
CHAT_ALERTS = 20
# The receiver wants nothing more of it, says the specification of Standard Webhooks; Slack says so of a dead channel.
GONE = 410
_JSON = {"Content-Type": "application/json"}


def check_url(to: Sequence[str]) -> list[str]:
    """Return the one URL; raise InvalidAlertRule for one that deliveries may not go to either."""
    if len(to) != 1:
        raise InvalidAlertRule("to", "must be one URL.")
    try:
        return [validate_url(to[0], guard=guard_from(os.environ))]
    except InvalidDestination as error:
        raise InvalidAlertRule("to", f"{error.reason}.") from None


def answered(answer: PostAnswer, finals: Collection[int] = (GONE,)) -> ChannelAnswer:
    """Return what an HTTP answer means: a status 2xx takes the notice, one of `finals` ends the tries."""
    text = one_line(answer.text, SHOWN_CHARS)
    if answer.status is None:
        return ChannelAnswer(is_taken=False, text=text)
    words = f"HTTP {answer.status}{f': {text}' if text else ''}"
    return ChannelAnswer(200 <= answer.status < 300, words, is_final=answer.status in finals)


def post_json(
    post: HttpPost, url: str, document: Mapping[str, Any], finals: Collection[int] = (GONE,)
) -> ChannelAnswer:
    """Post a JSON document once."""
    return answered(post(url, _JSON, json.dumps(document).encode()), finals)


def heading(notice: Mapping[str, Any]) -> str:
    """Return one line that says which notice it is, for the head of a chat's message."""
    data = notice["data"]
    count = len(data["alerts"]) + data["more"]
    many = f"{count:,} alert{'' if count == 1 else 's'}"
    over = " resolved" if notice["type"] == NoticeType.RESOLVED else ""
    return one_line(f"PoisonAdmin {data['installation']}: {many}{over} by the rule {data['rule']}", 150)


def named_secret(secret: str) -> str:
    """Return what is shown in place of a secret, by which two are told apart; it is long, and cannot be guessed so.

    >>> named_secret("https://hooks.example.org/services/T0/B0/x")
    'secret 9f1d0070'
    """
    return f"secret {hashlib.sha256(secret.encode()).hexdigest()[:8]}"


def link_of(alert: Mapping[str, Any]) -> str | None:
    """Return the address of the page where one acts; None while POISONADMIN_PUBLIC_URL is not set."""
    url = alert.get("url", "")
    return url if url.startswith(("https://", "http://")) else None


def chat_channel(words: str, message_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> AlertChannel:
    """Return a channel whose URL, a secret, takes the JSON that `message_of` makes of a notice."""

    def send(notice: Notice, post: HttpPost) -> ChannelAnswer:
        return post_json(post, notice.secrets[0], message_of(json.loads(notice.body)))

    def hide(to: Sequence[str]) -> tuple[list[str], list[str]]:
        return [f"{URL(to[0]).host}, {named_secret(to[0])}"], list(to)

    return AlertChannel(words, "its webhook URL", check_url, send, is_signed=False, gathers_seconds=60, hide=hide)
