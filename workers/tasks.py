"""The Celery tasks of the worker `io`: one call inward. Ticks are acknowledged early, expire, and run one at a time."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from yarl import URL

from poisonadmin.alerts.channels.contract import PostAnswer
from poisonadmin.alerts.commands.record import record_alerts
from poisonadmin.alerts.commands.send import forget_old, send_due
from poisonadmin.archive.commands.requests import request_daily_run
from poisonadmin.core.commands.audit import fold_payload_reads
from poisonadmin.core.commands.locks import Tick
from poisonadmin.core.domain.ssrf import NetworkGuard, guard_from
from poisonadmin.decisions.operations.commands import operations
from poisonadmin.decisions.operations.commands.awaited_versions import begin_awaited
from poisonadmin.decisions.restart_jobs.commands import run_due
from poisonadmin.decisions.sign_offs.commands import expire_sign_offs
from poisonadmin.delivery.commands.ordered_conversations import clear_lanes
from poisonadmin.delivery.commands.recovery import sweep_journals
from poisonadmin.destinations.domain.http_config import is_sendable
from poisonadmin.groups.alike.commands import request_daily_search
from poisonadmin.messages.commands.admission import expire_due
from poisonadmin.messages.commands.counts import check_some, fold
from poisonadmin.reports.commands.saved import run_saved_due
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.search.commands.selections import remove_expired
from poisonadmin.search.deep.commands.requests import remove_hits_without_search
from poisonadmin.sources.commands import broker_checks
from poisonadmin.system.commands.audit_seals import seal_audit
from poisonadmin.system.commands.housekeeping import clean_up
from poisonadmin.system.commands.metric_totals import add_up
from workers.brokers.sources import check_broker
from workers.celery_app import app, do_alone, do_each, worker_name
from workers.delivery.http.answers import transport_failure
from workers.delivery.http.connection import Pool
from workers.delivery.http.reader import IncomingAnswer
from workers.dispatcher import LocalJournals, recover_here


@app.task  # type: ignore[untyped-decorator]
def message_tick(**_: Any) -> None:
    """Settle what is answered, give back what dead nodes held, fold the counters."""
    do_each(partial(do_alone, Tick.RECOVER, recover_here), fold)


@app.task  # type: ignore[untyped-decorator]
def lane_tick(**_: Any) -> None:
    """Remove the lanes of conversations and operations that are over."""
    do_alone(Tick.LANES, clear_lanes, operations.clear_lanes)


@app.task  # type: ignore[untyped-decorator]
def count_tick(**_: Any) -> None:
    """Compare the counters of some addresses with their messages, and add up what monitoring reads."""
    do_each(check_some, add_up)


@app.task  # type: ignore[untyped-decorator]
def housekeeping_tick(**_: Any) -> None:
    """Remove what is only kept for a while."""
    do_alone(
        Tick.HOUSEKEEPING,
        clean_up,
        remove_expired,
        remove_hits_without_search,
        forget_old,
        partial(sweep_journals, LocalJournals()),
    )


@app.task  # type: ignore[untyped-decorator]
def archive_tick(**_: Any) -> None:
    """Once a day, have the archive run, and groups that look alike searched for."""
    do_each(request_daily_run, request_daily_search)


@app.task  # type: ignore[untyped-decorator]
def operation_tick(**_: Any) -> None:
    """Give up what has expired, and carry on with the operations that are not over."""
    carry_on = partial(do_alone, Tick.OPERATIONS, expire_sign_offs, begin_awaited, operations.carry_on)
    do_each(partial(do_alone, Tick.EXPIRE, expire_due), carry_on)


@app.task  # type: ignore[untyped-decorator]
def restart_tick(**_: Any) -> None:
    """Begin the runs of the restart jobs, and the saved reports, that are due."""
    do_each(partial(do_alone, Tick.RESTART, run_due), partial(do_alone, Tick.SAVED_REPORTS, run_saved_due))


@app.task  # type: ignore[untyped-decorator]
def seal_tick(**_: Any) -> None:
    """Write down which payloads were read, and seal the rows of the audit log that are committed for sure."""
    do_alone(Tick.SEAL, fold_payload_reads, seal_audit)


@app.task  # type: ignore[untyped-decorator]
def alert_tick(**_: Any) -> None:
    """Record what is the matter, and send what is due."""
    do_each(partial(do_alone, Tick.ALERTS, record_alerts), partial(send_due, post))


@app.task  # type: ignore[untyped-decorator]
def broker_check_tick(**_: Any) -> None:
    """Make the requested broker checks, and send the test alerts."""
    check = partial(carry_out, broker_checks.work(check_broker), worker=worker_name())
    do_each(check, partial(send_due, post, only_tests=True))


TIMEOUT_SECONDS = 10.0
KEPT_BYTES = 1000
_DEFAULTS = {"User-Agent": "PoisonAdmin", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}


def post(url: str, headers: Mapping[str, str], body: bytes) -> PostAnswer:
    """Send one request and return its answer, or why there is none; never raises."""
    place = URL(url)
    try:
        answer = asyncio.run(_answer(place, headers, body, guard_from(os.environ)))
    except Exception as error:  # whatever it is, it is this try's outcome
        failure = transport_failure(error, place=f"{place.host}:{place.port}", timeout_ms=int(TIMEOUT_SECONDS * 1000))
        return PostAnswer(None, failure.message)
    head = answer.head
    assert head is not None
    if 300 <= head.status < 400:
        return PostAnswer(head.status, "redirects are not followed")
    return PostAnswer(head.status, answer.kept[:KEPT_BYTES].decode("utf-8", "replace"))


async def _answer(url: URL, headers: Mapping[str, str], body: bytes, guard: NetworkGuard) -> IncomingAnswer:
    pool = Pool(url, guard)
    answer = IncomingAnswer(keep=KEPT_BYTES)
    deadline = asyncio.get_running_loop().time() + TIMEOUT_SECONDS
    try:
        async with asyncio.timeout_at(deadline):
            connection = await pool.take(deadline=deadline)
            await connection.request(_head(url, headers, body), body, answer)
            await connection.read()
    finally:
        await pool.close()
    return answer


def _head(url: URL, headers: Mapping[str, str], body: bytes) -> bytes:
    fields = {**_DEFAULTS, **headers, "Content-Length": str(len(body))}
    assert all(is_sendable(name, value) for name, value in fields.items())
    lines = [f"POST {url.raw_path_qs} HTTP/1.1", f"Host: {url.host_port_subcomponent}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode()
