"""A report as a person keeps it under a name."""

from collections.abc import Sequence

from poisonadmin.alerts.domain.kinds import ChannelKind
from poisonadmin.core.domain import settings
from poisonadmin.core.domain.settings import one_of, within

MAX_NAME_CHARS = 100


@settings.configuration
class SavedReportSettings:
    """`days`: its period is so many whole days before a run; None: the period of the report.

    `schedule`: five cron fields in its time zone. `channel`, `to`: how others are told of a run of the schedule.
    """

    name: str = settings.name_of(MAX_NAME_CHARS)
    days: int | None = settings.number(
        "Days",
        within(1, 800),
        default=None,
        note="The last whole days before each run, instead of the period above.",
    )
    schedule: str | None = settings.text(
        "Schedule: five cron fields", default=None, most=100, hint="0 7 * * 1", note="In the time zone above."
    )
    is_shared: bool = settings.switch("Share it with others", default=False)
    channel: str | None = settings.choice(
        "When it is ready, tell by", one_of(ChannelKind, "."), default=None, hint="Nobody"
    )
    to: Sequence[str] = settings.lines(
        "Send to",
        default=[],
        most=20,
        each=2000,
        rows=2,
        note="Mail addresses, one a line, or one URL. They get a link below POISONADMIN_PUBLIC_URL, and no rows.",
    )
