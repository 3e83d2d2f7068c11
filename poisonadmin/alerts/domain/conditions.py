"""Conditions that a query finds, and the text of their alerts: one short line that no stranger can reshape."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

MAX_TITLE_CHARS = 300
MAX_QUOTED_CHARS = 160


@dataclass(frozen=True)
class Condition:
    """`subject`: what it is about, such as a group's id; "" where a rule has one alert of this kind at a time.

    `mark`: which occurrence it is, such as when an address stopped; None where only time tells two apart. `facts`:
    names and values for programs. `path`: the page that shows it.
    """

    subject: str
    mark: str | None
    title: str
    path: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def one_line(text: str, limit: int = MAX_QUOTED_CHARS) -> str:
    """Return a stranger's text in one line of printable characters, cut to `limit`.

    >>> one_line("a\\r\\nBcc: you\\u202e  b"), one_line("abcdef", 4)
    ('a Bcc: you b', 'abc…')
    """
    found = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return found if len(found) <= limit else f"{found[: limit - 1]}…"


def span(length: timedelta) -> str:
    """Return a span in its largest unit, rounded down.

    >>> span(timedelta(minutes=90)), span(timedelta(days=3)), span(timedelta(seconds=59))
    ('1 h', '3 d', '59 s')
    """
    seconds = max(0, int(length.total_seconds()))
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def new_group(title: str) -> str:
    """Return what an alert says of a new failure group."""
    return f"New failure group: {one_line(title)}"


def group_grows_again(title: str, quiet: timedelta) -> str:
    """Return what an alert says of a failure group that grows after it was quiet."""
    return f"Failure group grows again after {span(quiet)} of quiet: {one_line(title)}"


def group_grows(title: str, failures: int, length: timedelta) -> str:
    """Return what an alert says of a failure group that grows fast."""
    return f"Failure group has grown by {failures:,} failures in {span(length)}: {one_line(title)}"


def oldest_undecided(address: str, age: timedelta, *, is_searched: bool = False) -> str:
    """Return what an alert says of a message that has waited for too long; `is_searched`: one that a search finds."""
    which = " that the rule searches for" if is_searched else ""
    return f"A message on {one_line(address)}{which} has waited {span(age)} for a decision"


def overdue(count: int, cap: int, address: str, late: timedelta) -> str:
    """Return what an alert says of overdue deliveries; `cap`: how far they were counted."""
    many = (
        f"{cap:,} or more deliveries are" if count >= cap else f"{count:,} deliver{'y is' if count == 1 else 'ies are'}"
    )
    return f"{many} overdue, the first by {span(late)}, on {one_line(address)}"


def address_stopped(address: str, note: str | None) -> str:
    """Return what an alert says of an address that a message has stopped."""
    return f"The address {one_line(address)} is stopped{f': {one_line(note)}' if note else ''}"


def source_unreachable(name: str, length: timedelta, error: str) -> str:
    """Return what an alert says of a source that cannot be read."""
    return f"The source {one_line(name, 100)} cannot be read for {span(length)}: {one_line(error)}"


def break_glass(operation_id: int, who: str, count: int) -> str:
    """Return what an alert says of an operation that an administrator began without the sign-off that it needs."""
    many = f"{count:,} message{'' if count == 1 else 's'}"
    return f"{one_line(who, 100)} began operation #{operation_id} on {many} without a sign-off"


def counts_wrong(address: str, wrong: int) -> str:
    """Return what an alert says of an address whose counters differ from its messages."""
    return f"The counts of {one_line(address)} are wrong by {wrong:,}"


def archive_fails(length: timedelta, error: str) -> str:
    """Return what an alert says of a run of the archive that meets an error again and again."""
    return f"The archive has not succeeded for {span(length)}: {one_line(error)}"


def disk_fills(host: str, path: str, free: int, size: int) -> str:
    """Return what an alert says of a disk that is nearly full; `free` and `size` in bytes.

    >>> disk_fills("db1", "/var/lib/poisonadmin", 4 * 2**30, 50 * 2**30)
    'The disk of /var/lib/poisonadmin on db1 is nearly full: 4.0 of 50.0 GiB are free'
    """
    of = f"{free / 2**30:,.1f} of {size / 2**30:,.1f} GiB are free"
    return f"The disk of {one_line(path)} on {one_line(host, 100)} is nearly full: {of}"


def _operation(operation_id: int, verb: str, count: int) -> str:
    return f"operation #{operation_id}, {verb} {count:,} message{'' if count == 1 else 's'}"


def sign_off_waits(operation_id: int, verb: str, count: int, who: str) -> str:
    """Return what an alert says of an operation that waits for the sign-off of another person."""
    return f"{one_line(who, 100)} needs a sign-off for {_operation(operation_id, verb, count)}"


def sign_off_result(operation_id: int, verb: str, count: int, by: str | None, *, is_consent: bool) -> str:
    """Return what an alert says of a sign-off that is decided; `by`: who did, None where nobody did in time.

    >>> sign_off_result(7, "Approve", 1700, "kim", is_consent=True)
    'kim signed off operation #7, Approve 1,700 messages'
    >>> sign_off_result(7, "Approve", 1, None, is_consent=False)
    'Nobody signed off operation #7, Approve 1 message, in time'
    """
    what = _operation(operation_id, verb, count)
    if by is None:
        return f"Nobody signed off {what}, in time"
    return f"{one_line(by, 100)} {'signed off' if is_consent else 'refused'} {what}"


def operation_ended(operation_id: int, verb: str, count: int, state: str, outcomes: Mapping[str, int]) -> str:
    """Return what an alert says of an operation that is over, with how many messages came to each outcome.

    >>> operation_ended(7, "Approve", 12, "completed", {"delivered": 10, "failed_same": 2, "skipped": 0})
    'Completed: operation #7, Approve 12 messages: 10 delivered, 2 failed same'
    """
    found = ", ".join(f"{n:,} {outcome.replace('_', ' ')}" for outcome, n in outcomes.items() if n)
    return f"{state.capitalize()}: {_operation(operation_id, verb, count)}{f': {found}' if found else ''}"


def operation_halted(operation_id: int, why: str | None) -> str:
    """Return what an alert says of an operation that halted."""
    return f"Operation #{operation_id} halted{f': {one_line(why)}' if why else ''}"
