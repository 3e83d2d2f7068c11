"""An operation that waits until its consumer is mended, and which failures show that it is not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from poisonadmin.decisions.operations.domain.lifecycle import Ledger
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.deployments.domain.consumers import InvalidDeployment, checked_consumer, checked_version
from poisonadmin.deployments.domain.versions import at_least
from poisonadmin.messages.domain.outcomes import MemberOutcome


@dataclass(frozen=True)
class BeginWhen:
    """The version of a consumer, or a later one, that is to be seen alive before an operation begins."""

    consumer: str
    version: str

    def is_met_by(self, version: str) -> bool:
        """Return whether a version will do; one that cannot be compared will not."""
        return at_least(version, self.version) is True

    @property
    def words(self) -> str:
        """Return it in words.

        >>> BeginWhen("billing", "2.5").words
        'billing 2.5 or later'
        """
        return f"{self.consumer} {self.version} or later"


def begin_when_of(given: Mapping[str, Any]) -> BeginWhen:
    """Return what an operation waits for. Errors: `InvalidOperation`.

    >>> begin_when_of({"consumer": "billing", "version": "2.5.0"})
    BeginWhen(consumer='billing', version='2.5.0')
    """
    for name in given:
        if name not in ("consumer", "version"):
            raise InvalidOperation(f"begin_when.{name[:100]}", "is unknown: it takes consumer and version.")
    for name in ("consumer", "version"):
        if not isinstance(given.get(name), str):
            raise InvalidOperation(f"begin_when.{name}", "must be a text.")
    try:
        return BeginWhen(checked_consumer(given["consumer"]), checked_version(given["version"]))
    except InvalidDeployment as error:
        raise InvalidOperation(f"begin_when.{error.field}", error.reason) from None


class FailedOn(NamedTuple):
    """A count of members that failed again with a version of their consumer, None where it said none."""

    outcome: MemberOutcome
    version: str | None
    group_id: int | None
    members: int


class FailuresOn(NamedTuple):
    """`ledger`: without what failed on older versions. `regressed`: what failed as before on one that should do."""

    ledger: Ledger
    regressed: list[FailedOn]

    def why_halt(self, awaited: BeginWhen) -> str | None:
        """Return why the operation halts for what has regressed; None where nothing has."""
        if not self.regressed:
            return None
        versions = ", ".join(sorted({one.version or "" for one in self.regressed}))
        n = sum(one.members for one in self.regressed)
        return f"{n:,} failed again as before on {versions}; {awaited.words} was to mend that."


def without_older(ledger: Ledger, failures: Iterable[FailedOn], awaited: BeginWhen) -> FailuresOn:
    """Return what failures say of the version that an operation has waited for.

    One on an older version says nothing of it. One without a version, or with one that cannot be compared, counts as
    in any operation.

    >>> failures = [FailedOn(MemberOutcome.FAILED_SAME, "2.4", 7, 3), FailedOn(MemberOutcome.FAILED_SAME, None, 7, 1)]
    >>> without_older(Ledger(failed_same=4), failures, BeginWhen("billing", "2.5")).ledger.failed_same
    1
    """
    regressed = []
    for one in failures:
        is_mended = None if one.version is None else at_least(one.version, awaited.version)
        if is_mended is False:
            ledger = replace(ledger, **{one.outcome: getattr(ledger, one.outcome) - one.members})
        elif is_mended and one.outcome is MemberOutcome.FAILED_SAME:
            regressed.append(one)
    return FailuresOn(ledger, regressed)
