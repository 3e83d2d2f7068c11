"""Schedules of five cron fields, and the rights with which they run what somebody has set up."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from poisonadmin.core.commands.authentication import principal_of_account
from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Principal
from poisonadmin.core.domain.settings import InvalidValue

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
