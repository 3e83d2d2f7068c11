"""The kinds of alerts, and the channels that send them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from poisonadmin.groups.domain.failures import LEAST_QUIET_MINUTES


class AlertKind(StrEnum):
    NEW_GROUP = "new_group"
    GROUP_GROWS_AGAIN = "group_grows_again"
    GROUP_GROWS = "group_grows"
    OLDEST_UNDECIDED = "oldest_undecided"
    OVERDUE_DELIVERIES = "overdue_deliveries"
    ADDRESS_STOPPED = "address_stopped"
    SOURCE_UNREACHABLE = "source_unreachable"
    OPERATION_HALTED = "operation_halted"
    OPERATION_ENDED = "operation_ended"
    SIGN_OFF_WAITS = "sign_off_waits"
    SIGN_OFF_RESULT = "sign_off_result"
    BREAK_GLASS = "break_glass"
    COUNTS_WRONG = "counts_wrong"
    ARCHIVE_FAILS = "archive_fails"
    DISK_FILLS = "disk_fills"


class ChannelKind(StrEnum):
    WEBHOOK = "webhook"
    EMAIL = "email"
    SLACK = "slack"
    TEAMS = "teams"
    PAGERDUTY = "pagerduty"


# Those that can tell of a report: nothing of where they send is a secret.
REPORT_CHANNELS = (ChannelKind.WEBHOOK, ChannelKind.EMAIL)


class AlertDeliveryState(StrEnum):
    """WAITING for its next try; SENT; FAILED: given up; DROPPED: all of it was over before it was to be sent."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Limit:
    """A limit of a kind, in minutes. `words`: what it limits, as forms say it."""

    words: str
    default: int
    least: int = 1


@dataclass(frozen=True)
class AlertKindInfo:
    """`words`: the kind as pages say it. `has_address`: false for what belongs to no address, such as a source.

    `has_end`: false for what happened once, so that its end is no news. `has_search`: it is about single messages,
    so a search can narrow it.
    """

    words: str
    limit: Limit | None = None
    has_address: bool = True
    has_end: bool = True
    has_search: bool = False


MOST_MINUTES = 30 * 24 * 60
KINDS: Mapping[AlertKind, AlertKindInfo] = {
    AlertKind.NEW_GROUP: AlertKindInfo("New failure group"),
    AlertKind.GROUP_GROWS_AGAIN: AlertKindInfo(
        "Failure group grows again", Limit("Quiet before a group grows again", 1440, LEAST_QUIET_MINUTES)
    ),
    AlertKind.GROUP_GROWS: AlertKindInfo("Failure group grows", Limit("Time in which a group grows", 60)),
    AlertKind.OLDEST_UNDECIDED: AlertKindInfo(
        "Old undecided message", Limit("Age of an undecided message", 60), has_search=True
    ),
    AlertKind.OVERDUE_DELIVERIES: AlertKindInfo("Overdue deliveries", Limit("Lateness of a delivery", 5)),
    AlertKind.ADDRESS_STOPPED: AlertKindInfo("Address stopped"),
    AlertKind.SOURCE_UNREACHABLE: AlertKindInfo(
        "Source unreachable", Limit("Time without reading a source", 5), has_address=False
    ),
    AlertKind.OPERATION_HALTED: AlertKindInfo("Operation halted"),
    AlertKind.OPERATION_ENDED: AlertKindInfo(
        "Operation ended", Limit("Least length of an operation", 5), has_end=False
    ),
    AlertKind.SIGN_OFF_WAITS: AlertKindInfo("Sign-off waits"),
    AlertKind.SIGN_OFF_RESULT: AlertKindInfo("Result of a sign-off", has_end=False),
    AlertKind.BREAK_GLASS: AlertKindInfo("Operation without its sign-off", has_end=False),
    AlertKind.COUNTS_WRONG: AlertKindInfo("Counts wrong"),
    AlertKind.ARCHIVE_FAILS: AlertKindInfo("Archive fails", Limit("Length of an archive run", 60), has_address=False),
    AlertKind.DISK_FILLS: AlertKindInfo("Disk fills", has_address=False),
}
GROUP_KINDS = (AlertKind.NEW_GROUP, AlertKind.GROUP_GROWS_AGAIN)
