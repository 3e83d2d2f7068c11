"""Tags and filters that every template knows."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from django import template
from django.template import Context
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from poisonadmin.sources.domain.broker_kinds import BROKERS
from poisonadmin.web.pages import crash_view, sanitising, tables, words

_STEPS = ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min"))


def _distance(then: datetime, now: datetime) -> str:
    """Return how far `then` is from `now`, in the largest unit that fits.

    >>> from datetime import UTC, timedelta
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> [_distance(noon - timedelta(seconds=s), noon) for s in (0, 42, 3 * 60 + 5, 7300, -90)]
    ['now', '42 s ago', '3 min ago', '2 h ago', 'in 1 min']
    """
    seconds = int((now - then).total_seconds())
    if seconds == 0:
        return "now"
    span = _length(abs(seconds))
    return f"{span} ago" if seconds > 0 else f"in {span}"


def _length(seconds: float) -> str:
    """Return a span in its largest unit, rounded down; milliseconds below one second.

    >>> _length(0.25), _length(59), _length(3700)
    ('250 ms', '59 s', '1 h')
    """
    if 0 < seconds < 1:
        return f"{int(seconds * 1000)} ms"
    for size, unit in _STEPS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _full_time(when: datetime) -> str:
    """Return the time in full, with its zone.

    >>> from datetime import UTC
    >>> _full_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02 03:04:05 UTC'
    """
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


ICONS: dict[str, tuple[str, ...]] = {
    "activity": ("M3 12h4l3-8 4 16 3-8h4",),
    "alert": ("M12 4l9 16H3z", "M12 10v4", "M12 17v.01"),
    "arrow-left": ("M19 12H5", "M11 6l-6 6 6 6"),
    "arrow-right": ("M5 12h14", "M13 6l6 6-6 6"),
    "ban": ("M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z", "M6 6l12 12"),
    "bell": ("M6 17h12l-2-3V10a4 4 0 0 0-8 0v4z", "M10 20h4"),
    "bolt": ("M13 3L5 14h6l-1 7 9-12h-6z",),
    "book": ("M6 4h13v16H6a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2z", "M9 8h6", "M9 12h6"),
    "check": ("M5 12l5 5 9-10",),
    "clock": ("M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z", "M12 7v5l3 3"),
    "cross": ("M6 6l12 12", "M18 6L6 18"),
    "dots": ("M5 12v.01", "M12 12v.01", "M19 12v.01"),
    "download": ("M12 4v11", "M7 11l5 5 5-5", "M4 20h16"),
    "file": ("M6 3h8l5 5v13H6z", "M14 3v5h5"),
    "filter": ("M4 5h16l-6 8v6l-4-2v-4z",),
    "home": ("M4 11l8-7 8 7", "M6 10v10h12V10", "M10 20v-6h4v6"),
    "inbox": ("M4 13l3-8h10l3 8v6H4z", "M4 13h5l1 3h4l1-3h5"),
    "key": ("M8 11a4 4 0 1 0 0 8 4 4 0 0 0 0-8z", "M11 12l9-9", "M16 7l3 3"),
    "keyboard": ("M3 6h18v12H3z", "M7 10v.01", "M11 10v.01", "M15 10v.01", "M8 14h8"),
    "layers": ("M12 4l9 5-9 5-9-5z", "M3 14l9 5 9-5"),
    "list-ban": ("M4 6h16", "M4 12h8", "M4 18h6", "M17 13a4 4 0 1 0 0 8 4 4 0 0 0 0-8z", "M14.2 14.2l5.6 5.6"),
    "logout": ("M14 4H5v16h9", "M10 12h11", "M17 8l4 4-4 4"),
    "mail": ("M3 6h18v12H3z", "M3 7l9 7 9-7"),
    "menu": ("M4 6h16", "M4 12h16", "M4 18h16"),
    "moon": ("M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10z",),
    "pause": ("M7 5v14", "M17 5v14"),
    "play": ("M7 4l13 8-13 8z",),
    "refresh": ("M20 11a8 8 0 0 0-15-3", "M4 4v5h5", "M4 13a8 8 0 0 0 15 3", "M20 20v-5h-5"),
    "route": ("M4 5h11l4 4-4 4H4z", "M8 13v8"),
    "search": ("M10 4a6 6 0 1 0 0 12 6 6 0 0 0 0-12z", "M15 15l6 6"),
    "send": ("M21 3L10 14", "M21 3l-7 18-4-7-7-4z"),
    "server": ("M4 5h16v6H4z", "M4 13h16v6H4z", "M8 8v.01", "M8 16v.01"),
    "shield": ("M12 3l8 3v6c0 4-3 7-8 9-5-2-8-5-8-9V6z",),
    "sliders": ("M4 7h10", "M18 7h2", "M16 5v4", "M4 17h2", "M10 17h10", "M8 15v4"),
    "sun": (
        "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
        "M12 2v2",
        "M12 20v2",
        "M2 12h2",
        "M20 12h2",
        "M5 5l1 1",
        "M18 18l1 1",
        "M5 19l1-1",
        "M18 6l1-1",
    ),
    "undo": ("M9 14L4 9l5-5", "M4 9h10a6 6 0 0 1 0 12h-3"),
    "user": ("M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8z", "M4 21c0-4 3-6 8-6s8 2 8 6"),
}


register = template.Library()
register.tag("table", tables.parse_table)
register.filter("visible", sanitising.visible)
register.filter("reason_words", words.reason_words)
register.filter("count_words", words.count_words)
register.filter("event_words", words.event_words)
register.filter("state_words", words.state_words)
register.filter("refusal_words", words.refusal_words)
register.filter("outcome_words", words.outcome_words)
register.filter("outcome_tone", words.outcome_tone)
register.filter("node_end_words", words.node_end_words)
register.filter("death", crash_view.describe_crash)
register.filter("skip_words", words.skip_words)
register.filter("seconds_words", _length)


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
    return {"when": when, "kind": "ago", "text": _distance(when, timezone.now()), "title": _full_time(when)}


@register.inclusion_tag("web/_time.html")
def at(when: datetime | None, empty: str = "–") -> dict[str, Any]:
    """Show a time in full, with the distance from now in its title."""
    if when is None:
        return {"when": None, "empty": empty}
    return {"when": when, "kind": "at", "text": _full_time(when), "title": _distance(when, timezone.now())}


@register.inclusion_tag("web/_path.html")
def path(text: str) -> dict[str, Any]:
    """Show a path that breaks over lines behind its slashes rather than within a word."""
    return {"parts": clip(text).split("/")}


@register.inclusion_tag("web/_trend.html")
def trend(counts: Sequence[int], peak: int | None = None, unit: str = "hour") -> dict[str, Any]:
    """Draw one bar an hour, or another unit of time, all on the scale of `peak`, or else of the highest."""
    peak = max(counts, default=0) if peak is None else peak
    heights = [round(26 * count / peak) if peak and count else 0 for count in counts]
    bars = [
        {"x": position * 5, "y": 27 - max(height, 1), "height": max(height, 1)}
        for position, height in enumerate(heights)
    ]
    label = f"{sum(counts):,} failures in {len(counts)} {unit}s, {counts[-1]:,} in the last one"
    return {"bars": bars, "width": 5 * len(counts), "label": label}


@register.inclusion_tag("web/_columns.html")
def columns(*names: str, kind: str = "") -> dict[str, Any]:
    """Head columns of a table; `kind` is their class."""
    return {"names": names, "kind": kind}


@register.inclusion_tag("web/_tick.html")
def tick(name: str, value: object, *words: object) -> dict[str, Any]:
    """Draw the box that ticks a row; `words` say what is ticked."""
    return {"name": name, "value": value, "label": " ".join(map(str, words))}


@register.inclusion_tag("web/_text_filter.html")
def text_filter(label: str, name: str, value: str | None, **options: Any) -> dict[str, Any]:
    """Offer a text to narrow a list by; options: `field_id`, `placeholder`, `is_prose`, `is_wide`."""
    return {"field_id": name, "label": label, "name": name, "value": value} | options


@register.inclusion_tag("web/_time_filter.html")
def time_filter(label: str, name: str, value: str | None, field_id: str) -> dict[str, Any]:
    """Offer a time to narrow a list by."""
    return {"label": label, "name": name, "value": value, "field_id": field_id}


@register.simple_block_tag
def nothing(content: str, icon_name: str, heading: str) -> str:
    """Say why a list is empty: an icon, a heading and, between the tags, a sentence."""
    return render_to_string("web/_empty.html", {"icon_name": icon_name, "heading": heading, "sentence": content})


@register.simple_block_tag(takes_context=True)
def delete_form(
    context: Context, content: str, what: str, route: str, row_id: int | None = None, name: str = ""
) -> str:
    """Offer to delete what a page shows, which has an id or a name; between the tags, what this does."""
    url = reverse(route) if row_id is None else reverse(route, args=[row_id])
    values = {"what": what, "url": url, "name": name, "sentence": content}
    return render_to_string("web/_delete.html", values | {"csrf_token": context.get("csrf_token")})


@register.simple_tag
def link(route: str, **parameters: object) -> str:
    """Return the URL of a page with these parameters."""
    return f"{reverse(route)}?{urlencode(parameters, quote_via=quote, safe='')}"


@register.simple_tag
def took(started: datetime | None, finished: datetime | None) -> str:
    """Return how long something took, or takes so far."""
    if started is None:
        return "–"
    seconds = ((finished or timezone.now()) - started).total_seconds()
    return _length(seconds) if finished else f"{_length(seconds)} so far"


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
    """Return a span given in milliseconds in words: its largest unit, and the next one where something is left for it.

    >>> [milliseconds(ms) for ms in (0, 250, 16_875, 125_000, 175_000, 3_600_000, 90_061_000)]
    ['0 s', '250 ms', '16 s', '2 min 5 s', '2 min 55 s', '1 h', '1 d 1 h']
    """
    if not value:
        return "–" if value is None else "0 s"
    seconds = value / 1000
    unit = next((size for size, _ in _STEPS if seconds >= size), 0)
    next_unit = next((size for size, _ in _STEPS if size < unit), 1)
    rest = seconds % unit if unit else 0
    return f"{_length(seconds)} {_length(rest)}" if rest >= next_unit else _length(seconds)


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
