"""Schedules of five cron fields: runs of what is due, and the rights with which they run what somebody has set up."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from django.db import models, transaction
from django.db.models.functions import Now

from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.commands.locks import retried
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal
from poisonadmin.core.domain.settings import InvalidValue
from poisonadmin.core.queries.rows import database_time

Row = TypeVar("Row", bound=models.Model)
Result = TypeVar("Result")

MAX_SCHEDULE_CHARS = 100


def next_run(schedule: str, after: datetime, time_zone: str = "UTC", *, example: str = "0 4 * * *") -> datetime:
    """Return the first time after `after`, in UTC, at which five cron fields are due in a time zone.

    Errors: `InvalidValue` for what is no schedule, or one that is never due.

    >>> next_run("0 7 * * 1", datetime(2026, 3, 27, tzinfo=UTC), "Europe/Berlin").isoformat()
    '2026-03-30T05:00:00+00:00'
    """
    if not schedule.isascii() or len(schedule) > MAX_SCHEDULE_CHARS or len(schedule.split()) != 5:
        raise InvalidValue(f"must be five cron fields, such as `{example}`.")
    try:
        return next(CronSim(schedule, after.astimezone(ZoneInfo(time_zone)))).astimezone(UTC)
    except CronSimError as error:
        raise InvalidValue(f"is no schedule: {str(error).lower()}. It is five cron fields.") from None
    except StopIteration:
        raise InvalidValue("is never due.") from None


def rights_of_owner(account: str, owner: str) -> Principal:
    """Return the owner of what runs by a schedule, with the rights of now. Errors: `NotAllowed`."""
    found = principal_of_account(account) if account else SYSTEM
    if found is None:
        raise NotAllowed(f"The account or token of its owner, {owner}, is not in force.")
    return found


def run_each_due(
    table: type[Row],
    run: Callable[[Row], Result | None],
    *,
    failed: Callable[[Row, Exception], Result | None],
    time_zone: Callable[[Row], str] = lambda _: "UTC",
    **only: Any,
) -> list[Result]:
    """Run what is due by its `schedule` and `next_at`, each in a transaction of its own; return the results.

    One in trouble does not keep the others from their turn: `failed` writes down its error, and the next run is due by
    the schedule. `only`: what must hold of a row. Errors: the last one that `run` raised.
    """
    rows = table._default_manager  # noqa: SLF001  (Django documents the name)

    def run_if_due(row_id: int, run: Callable[[Row], Result | None]) -> Result | None:
        with transaction.atomic():
            row: Any = rows.select_for_update(no_key=True).filter(id=row_id, next_at__lte=Now(), **only).first()
            if row is None:
                return None
            rows.filter(id=row_id).update(next_at=next_run(row.schedule or "", database_time(), time_zone(row)))
            return run(row)

    results: list[Result] = []
    unexpected: Exception | None = None
    for row_id in list(rows.filter(next_at__lte=Now(), **only).order_by("next_at", "id").values_list("id", flat=True)):
        try:
            result = retried(partial(run_if_due, row_id, run))
        except Exception as error:
            unexpected = error
            result = run_if_due(row_id, lambda row, error=error: failed(row, error))  # type: ignore[misc]
        if result is not None:
            results.append(result)
    if unexpected is not None:
        raise unexpected
    return results
