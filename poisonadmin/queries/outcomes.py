"""What became of messages over time, for the overview's chart."""

from dataclasses import dataclass
from datetime import datetime

from poisonadmin.domain.access import Permission, Principal
from poisonadmin.domain.states import State
from poisonadmin.queries.address_ids import visible_ids
from poisonadmin.queries.filter_fields import InvalidFilter
from poisonadmin.queries.rows import bounded, fetch

SECONDS_TO_READ = 3
# Span in seconds -> width of a bar in seconds: some sixty bars each.
SPANS = {900: 15, 3600: 60, 21_600: 300, 86_400: 1800}


@dataclass(frozen=True)
class Bucket:
    """What happened in `step` seconds from `at`. `retried`: failed and waits for its next delivery."""

    at: datetime
    delivered: int
    retried: int
    undecided: int
    failed: int


def outcomes(principal: Principal, *, span: int) -> list[Bucket]:
    """Return what became of messages in the last `span` seconds, bucket by bucket, empty ones included, oldest first.

    Raise InvalidFilter for another span than those offered, QueryTooExpensive when so much happened that counting it
    would take more than three seconds.
    """
    principal.require(Permission.READ)
    if span not in SPANS:
        raise InvalidFilter("span", f"The chart shows {', '.join(map(str, SPANS))} seconds.")
    step = f"{SPANS[span]} s"
    ids = visible_ids(principal)
    scope, parameters = (
        ("", []) if ids is None else (" JOIN message m ON m.id = h.message_id AND m.address_id = ANY(%s)", [ids])
    )
    with bounded(SECONDS_TO_READ):
        return fetch(
            Bucket,
            f"""WITH edge AS (SELECT date_bin(%s, now(), 'epoch') AS newest),
                found AS (
                  SELECT date_bin(%s, h.at, 'epoch') AS at, h.to_state, count(*) AS n FROM history h{scope}
                  WHERE h.at >= (SELECT newest - %s::interval FROM edge)
                    AND (h.to_state IN ('DLVD', 'NDLV', 'FAIL') OR h.event = 'failed')
                  GROUP BY 1, 2)
                SELECT slot AS at,
                       coalesce(sum(n) FILTER (WHERE to_state = '{State.DLVD}'), 0)::bigint AS delivered,
                       coalesce(sum(n) FILTER (WHERE to_state = '{State.TBDL}'), 0)::bigint AS retried,
                       coalesce(sum(n) FILTER (WHERE to_state = '{State.NDLV}'), 0)::bigint AS undecided,
                       coalesce(sum(n) FILTER (WHERE to_state = '{State.FAIL}'), 0)::bigint AS failed
                FROM edge, generate_series(newest - %s::interval, newest, %s::interval) slot
                LEFT JOIN found ON found.at = slot GROUP BY slot ORDER BY slot""",  # noqa: S608
            [step, step, *parameters, f"{span} s", f"{span} s", step],
        )
