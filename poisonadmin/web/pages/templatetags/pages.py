"""Tags and filters of the pages: `{% load pages %}`."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone

from poisonadmin.sources.domain.broker_kinds import BROKERS
from poisonadmin.web.pages import crash_view, sanitising, times, words
from poisonadmin.web.pages.icons import ICONS

register = template.Library()
register.filter("visible", sanitising.visible)
register.filter("reason_words", words.reason_words)
register.filter("count_words", words.count_words)
register.filter("event_words", words.event_words)
register.filter("state_words", words.state_words)
register.filter("refusal_words", words.refusal_words)
register.filter("outcome_words", words.outcome_words)
register.filter("node_end_words", words.node_end_words)
register.filter("death", crash_view.describe_crash)


@register.inclusion_tag("web/_icon.html")
def icon(name: str) -> dict[str, Any]:
    """Draw an icon; decoration only, hidden from screen readers."""
    return {"paths": ICONS[name]}


@register.inclusion_tag("web/_state.html")
def state(code: str) -> dict[str, Any]:
    """Show a state as colour and word."""
    return {"code": code, "words": words.state_words(code), "hint": words.STATE_HINTS.get(code, "")}


@register.inclusion_tag("web/_time.html")
def ago(when: datetime | None, empty: str = "–") -> dict[str, Any]:
    """Show a time as a distance from now, with the full time in its title."""
    if when is None:
        return {"when": None, "empty": empty}
    return {"when": when, "kind": "ago", "text": times.ago(when, timezone.now()), "title": times.absolute(when)}


@register.inclusion_tag("web/_time.html")
def at(when: datetime | None, empty: str = "–") -> dict[str, Any]:
    """Show a time in full, with the distance from now in its title."""
    if when is None:
        return {"when": None, "empty": empty}
    return {"when": when, "kind": "at", "text": times.absolute(when), "title": times.ago(when, timezone.now())}


@register.inclusion_tag("web/_trend.html")
def trend(hours: Sequence[int], peak: int) -> dict[str, Any]:
    """Draw one bar an hour, all on the scale of `peak`."""
    heights = [round(26 * hour / peak) if peak and hour else 0 for hour in hours]
    bars = [
        {"x": position * 5, "y": 27 - max(height, 1), "height": max(height, 1)}
        for position, height in enumerate(heights)
    ]
    return {"bars": bars, "label": f"{sum(hours):,} failures in {len(hours)} hours, {hours[-1]:,} in the last one"}


@register.simple_tag
def took(started: datetime | None, finished: datetime | None) -> str:
    """Return how long something took, or takes so far."""
    if started is None:
        return "–"
    seconds = ((finished or timezone.now()) - started).total_seconds()
    return times.length(seconds) if finished else f"{times.length(seconds)} so far"


@register.filter
def clip(text: object, limit: int = sanitising.MAX_NAME_CHARS) -> str:
    """Return a stranger's text fit to look at and cut to `limit` characters."""
    return sanitising.clipped(sanitising.visible(text), limit)


@register.filter
def as_json(value: object) -> str:
    """Return a value of a JSON document in one line; a text as it is, nothing as a dash."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@register.filter
def kind_words(kind: str) -> str:
    """Return a job's kind in words.

    >>> kind_words("dry_run")
    'Dry run'
    """
    return kind.replace("_", " ").capitalize()


@register.filter
def broker_words(kind: str) -> str:
    """Return what a kind of source or destination is called.

    >>> broker_words("rabbitmq"), broker_words("http"), broker_words("handler")
    ('RabbitMQ', 'HTTP', 'Handler')
    """
    return BROKERS[kind].words if kind in BROKERS else "HTTP" if kind == "http" else kind.capitalize()


@register.filter
def plain_words(value: object) -> str:
    """Return a setting's value in words: yes and no instead of True and False, none for what is not set."""
    return {True: "yes", False: "no", None: "none"}[value] if value is None or isinstance(value, bool) else str(value)


@register.filter
def milliseconds(value: float | None) -> str:
    """Return a span given in milliseconds in words."""
    return "–" if value is None else times.length(value / 1000) if value else "0 s"


@register.filter
def size(count: int | None) -> str:
    """Return a number of bytes in words.

    >>> size(512), size(20_480)
    ('512 B', '20.0 kB')
    """
    if count is None:
        return "–"
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} kB" if count < 1024**2 else f"{count / 1024**2:.1f} MB"
