"""What became of messages over time, for the overview's chart."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.queries.address_ids import visible_ids
from poisonadmin.core.queries.filter_values import InvalidFilter
from poisonadmin.core.queries.rows import bounded, fetch, fetch_values
from poisonadmin.messages.domain.states import State

SECONDS_TO_READ = 3
# Span in seconds -> width of a bar in seconds: some sixty bars each.
SPANS = {900: 15, 3600: 60, 21_600: 300, 86_400: 1800}
# A row carries the time at which its transaction began; none that writes history lasts so long.
SETTLED_AFTER = timedelta(minutes=2)
REMEMBERED_CHARTS = 64


@dataclass(frozen=True)
class Bucket:
    """What happened in one bar's width from `at`. `retried`: failed and waits for its next delivery."""

    at: datetime
    delivered: int = 0
    retried: int = 0
    undecided: int = 0
    failed: int = 0


# (database, scope, width) -> the buckets that can no longer change: a page that asks again reads the newest only.
_past: OrderedDict[tuple[Any, ...], dict[datetime, Bucket]] = OrderedDict()


def outcomes(principal: Principal, *, span: int) -> list[Bucket]:
    """Return what became of messages in the last `span` seconds, bucket by bucket, empty ones included, oldest first.

    Raise InvalidFilter for another span than those offered, QueryTooExpensive when so much happened that counting it
    would take more than three seconds.
    """
    principal.require(Permission.READ)
    if span not in SPANS:
        raise InvalidFilter("span", f"The chart shows {', '.join(map(str, SPANS))} seconds.")
    step = timedelta(seconds=SPANS[span])
    ids = visible_ids(principal)
    key = (connection.settings_dict["NAME"], None if ids is None else tuple(ids), step)
    newest: datetime = fetch_values("SELECT date_bin(%s, now(), 'epoch')", [step])[0]
    slots = [newest - step * place for place in range(span // SPANS[span], -1, -1)]
    known = _past.get(key, {})
    since = next((slot for slot in slots if slot not in known), newest)
    found = {bucket.at: bucket for bucket in _read(ids, step, since)}
    buckets = [known.get(slot) or found.get(slot) or Bucket(slot) for slot in slots]
    _remember(key, {bucket.at: bucket for bucket in buckets if bucket.at + step <= newest - SETTLED_AFTER})
    return buckets


def _read(ids: Sequence[int] | None, step: timedelta, since: datetime) -> list[Bucket]:
    join, parameters = (
        ("", []) if ids is None else (" JOIN message m ON m.id = h.message_id AND m.address_id = ANY(%s)", [ids])
    )
    with bounded(SECONDS_TO_READ):
        return fetch(
            Bucket,
            f"""SELECT date_bin(%s, h.at, 'epoch') AS at,
                       count(*) FILTER (WHERE to_state = '{State.DLVD}') AS delivered,
                       count(*) FILTER (WHERE to_state = '{State.TBDL}') AS retried,
                       count(*) FILTER (WHERE to_state = '{State.NDLV}') AS undecided,
                       count(*) FILTER (WHERE to_state = '{State.FAIL}') AS failed
                FROM history h{join}
                WHERE h.at >= %s AND (h.to_state IN ('DLVD', 'NDLV', 'FAIL') OR h.event = 'failed') GROUP BY 1""",  # noqa: S608
            [step, *parameters, since],
        )


def _remember(key: tuple[Any, ...], buckets: dict[datetime, Bucket]) -> None:
    _past[key] = buckets
    _past.move_to_end(key)
    while len(_past) > REMEMBERED_CHARTS:
        _past.popitem(last=False)
