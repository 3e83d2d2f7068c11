"""Tags and filters that every template knows."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from django import template
from django.conf import settings
from django.template import Context, Node, NodeList
from django.template.base import FilterExpression, Parser, Token
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from poisonadmin.core.domain import sanitising
from poisonadmin.core.domain.access import Permission, roles_with
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.messages.domain.explanations import explanation
from poisonadmin.policies.domain.resolution import shown
from poisonadmin.policies.domain.settings import SETTINGS
from poisonadmin.web.pages import tables, words

_OUTLINES = settings.BASE_DIR / "node_modules" / "@tabler" / "icons" / "icons" / "outline"
_LINK = re.compile(r'(<a\b[^>]*?) href="[^"]*"')
_DIFF_KINDS = {"+": "added", "-": "removed", "@": "place"}
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


# Seconds between two requests of a part: for an answer that comes at once, a run that is watched, a list, and news.
_PACES = {"answer": 1, "run": 2, "list": 5, "news": 10}

register = template.Library()
register.tag("table", tables.parse_table)
register.filter("visible", sanitising.visible)
register.filter("reason_words", words.reason_words)
register.filter("count_words", words.count_words)
register.filter("event_words", words.event_words)
register.filter("state_words", words.state_words)
register.filter("refusal_words", words.refusal_words)
register.filter("evidence_words", words.evidence_words)
register.filter("outcome_words", words.outcome_words)
register.filter("outcome_tone", words.outcome_tone)
register.filter("node_end_words", words.node_end_words)
register.filter("crash_words", words.describe_crash)
register.filter("skip_words", words.skip_words)
register.filter("member_words", words.member_words)
register.filter("seconds_words", _length)
register.filter("process_state", words.process_state)
register.filter("switch_state", words.switch_state)
register.filter("rule_state", words.rule_state)
register.inclusion_tag("web/_badge.html", name="badge")(words.badge)


@cache
def paths_of(name: str) -> tuple[str, ...]:
    """Return the paths that draw an icon; none where the package is not installed or has no icon of that name."""
    try:
        drawing = (_OUTLINES / f"{name}.svg").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    return tuple(re.findall(r'<path d="([^"]+)"', drawing))


@register.inclusion_tag("web/_icon.html")
def icon(name: str) -> dict[str, Any]:
    """Draw an icon; decoration only, hidden from screen readers."""
    return {"paths": paths_of(name)}


@register.inclusion_tag("web/_state.html")
def state(code: str, *, is_inside: bool = False) -> dict[str, Any]:
    """Show a state as colour and word, its code beside it. `is_inside`: of a link or label, which has the focus."""
    return {"code": code, "words": words.STATE_LABELS.get(code, code), "is_inside": is_inside}


@register.inclusion_tag("web/_explains.html")
def explains(kind: str, code: str) -> dict[str, str]:
    """Write the attributes of an element that explains a word on hover, focus and tap (static/js/explain.js)."""
    return {"text": explanation(kind, code)}


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
def path(text: str, separator: str = "/") -> dict[str, Any]:
    """Show a path that breaks over lines behind its slashes, or another separator, rather than within a word."""
    return {"parts": clip(text).split(separator), "separator": separator}


@register.inclusion_tag("web/_trend.html")
def trend(
    counts: Sequence[int], peak: int | None = None, unit: str = "hour", marks: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """Draw one bar an hour, or another unit of time, all on the scale of `peak`, or else of the highest.

    `marks`: titles of lines, by the place of the bar.
    """
    peak = max(counts, default=0) if peak is None else peak
    heights = [round(26 * count / peak) if peak and count else 0 for count in counts]
    bars = [
        {"x": position * 5, "y": 27 - max(height, 1), "height": max(height, 1)}
        for position, height in enumerate(heights)
    ]
    label = f"{sum(counts):,} failures in {len(counts)} {unit}s, {counts[-1]:,} in the last one"
    lines = [(5 * place + 2, words) for place, words in (marks or {}).items()]
    return {"bars": bars, "width": 5 * len(counts), "label": label, "marks": lines}


@register.inclusion_tag("web/_ledger_bar.html")
def ledger_bar(operation_id: int, ledger: Any) -> dict[str, Any]:
    """Draw a ledger as one bar, whose parts lead to their messages; a small part is drawn wide enough to be hit."""
    counts = [(one, n) for one in words.MEMBER_OUTCOMES if (n := getattr(ledger, one))]
    widths = [max(n / ledger.total, 0.04) for _, n in counts]
    scale = 1000 / sum(widths) if widths else 0
    parts = [
        {"outcome": one, "count": n, "x": round(scale * sum(widths[:place])), "width": round(scale * widths[place])}
        for place, (one, n) in enumerate(counts)
    ]
    return {"operation_id": operation_id, "parts": parts}


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


@register.inclusion_tag("web/_poll.html")
def poll(url: str, pace: str, replaces: str = "") -> dict[str, Any]:
    """Write the attributes by which a part of a page asks for its next content, at one of the paces.

    What comes is its content, or where `replaces` is its own selector, the part itself. Pages in the background wait.
    """
    return {"url": url, "seconds": _PACES[pace], "replaces": replaces}


@register.simple_tag
def link(route: str, **parameters: object) -> str:
    """Return the URL of a page with these parameters."""
    return f"{reverse(route)}?{urlencode(parameters, quote_via=quote, safe='')}"


@register.inclusion_tag("web/_columns.html", takes_context=True)
def columns_menu(context: Context, template: str) -> dict[str, Any]:
    """Offer the columns of a table to choose from, where its template lets a reader choose."""
    name = next((name for name, file in tables.CHOSEN.items() if file == template), "")
    choices = tables.column_choices(name, context["request"]) if name else []
    return {"name": name, "choices": choices}


@register.simple_tag
def took(started: datetime | None, finished: datetime | None) -> str:
    """Return how long something took, or takes so far."""
    if started is None:
        return "–"
    seconds = ((finished or timezone.now()) - started).total_seconds()
    return _length(seconds) if finished else f"{_length(seconds)} so far"


@dataclass
class AllowedNode(Node):
    """Buttons and links: as they are for who may use them, and disabled for others, saying which roles may."""

    nodelist: NodeList
    permission: FilterExpression
    is_in_scope: FilterExpression | None

    def render(self, context: Context) -> str:
        """Draw them; disabled links lead nowhere."""
        content = str(self.nodelist.render(context))
        permission = Permission(self.permission.resolve(context))
        may = context["principal"].may(permission)
        if may and (self.is_in_scope is None or self.is_in_scope.resolve(context)):
            return content
        why = (
            "For accounts that see all its addresses" if may else f"For the role {' or '.join(roles_with(permission))}"
        )
        frame = render_to_string("web/_disabled.html", {"why": why})
        return frame.replace("…", _LINK.sub(r'\1 role="link" aria-disabled="true"', content))


@register.tag
def allowed(parser: Parser, token: Token) -> AllowedNode:
    """Read `{% allowed PERMISSION %}` up to `{% endallowed %}`; a second word is false where the reader's addresses do
    not include what it concerns."""
    _, permission, *in_scope = token.split_contents()
    content = parser.parse(("endallowed",))
    parser.delete_first_token()
    expressions = [parser.compile_filter(word) for word in (permission, *in_scope)]
    return AllowedNode(content, expressions[0], expressions[1] if in_scope else None)


@register.filter
def clip(text: object, limit: int = sanitising.MAX_NAME_CHARS) -> str:
    """Return a stranger's text fit to look at and cut to `limit` characters."""
    return sanitising.clipped(sanitising.visible(text), limit)


@register.filter
def tagged(tags: str | None, prefix: str) -> str | None:
    """Return the path among the tags of a note that begins so, None where there is none.

    >>> tagged("/operations/3/undo/ /messages/7/", "/messages/")
    '/messages/7/'
    """
    return next((one for one in (tags or "").split() if one.startswith(prefix)), None)


@register.filter
def as_id(text: str) -> int | None:
    """Return the number that an object of the audit log has, None where it is none.

    >>> as_id("17"), as_id("orders.#")
    (17, None)
    """
    return int(text) if text.isascii() and text.isdigit() and int(text) <= MAX_ID else None


@register.filter
def as_json(value: object) -> str:
    """Return a value of a JSON document in one line; a text as it is, nothing as a dash."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@register.filter
def setting_words(value: object, name: str) -> str:
    """Return a policy's setting as its form shows it, as JSON where it is no number and no switch.

    >>> setting_words(5000, "redelivery_delay"), setting_words("artemis", "preset"), setting_words(None, "ordered")
    ('5 s', 'artemis', '–')
    """
    return shown(name, value) if isinstance(value, int) and name in SETTINGS else as_json(value)


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


@register.filter
def diff_lines(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return each line of a unified diff, without the names of its sides, with its kind: added, removed, place or none.

    >>> diff_lines(["--- before", "+++ after", "@@ -1 +1 @@", "-a", "+b", " c"])
    [('place', '@@ -1 +1 @@'), ('removed', '-a'), ('added', '+b'), ('', ' c')]
    """
    return [(_DIFF_KINDS.get(line[:1], ""), line) for line in lines[2:]]
