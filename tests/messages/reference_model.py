"""What a message should be after each event, said again in as few words as possible (R2, R3).

The state machine test compares it with the database. It knows no table, no lane and no claim, and shares no code with
`domain`: it is a second opinion.
"""

from dataclasses import dataclass

CRASH_LIMIT = 2
ATTEMPTS = 3


@dataclass(frozen=True)
class Rules:
    """The policy in force."""

    accuses_all: bool
    blacklists: bool
    approval_clears: bool


@dataclass
class Expected:
    """One message. `is_alone`: it is, or will be, tried in isolation."""

    rules: Rules
    state: str = "TBDL"
    reason: str | None = None
    candidate: bool = False
    crash_count: int = 0
    failure_count: int = 0
    attempt_number: int = 0
    is_due: bool = True
    last_stop: str | None = None

    @property
    def is_alone(self) -> bool:
        return self.candidate and not self.rules.accuses_all

    @property
    def row(self) -> tuple[str, str | None, bool, int, int, int]:
        return self.state, self.reason, self.candidate, self.crash_count, self.failure_count, self.attempt_number

    def claimed(self) -> None:
        self.state, self.attempt_number = "DLNG", self.attempt_number + 1

    def delivered(self) -> None:
        self.state, self.candidate, self.crash_count, self.failure_count = "DLVD", False, 0, 0

    def failed(self) -> None:
        self.failure_count += 1
        if self.failure_count >= ATTEMPTS:
            self._stop("attempts_exhausted")
        else:
            self.returned()

    def crashed(self) -> None:
        self._accused(is_counted=True)

    def node_lost(self) -> None:
        self._accused(is_counted=self.rules.accuses_all or self.is_alone)

    def discarded(self) -> None:
        self.state, self.reason, self.candidate, self.crash_count = "FAIL", "discarded_by_policy", False, 0

    def returned(self) -> None:
        """Back without a word against it: rolled back, released, outcome lost, or failed and not for the last time."""
        self.state, self.is_due = "TBDL", True

    rolled_back = returned

    def approved(self) -> None:
        self.state, self.reason, self.failure_count, self.is_due = "TBDL", None, 0, True
        if self.candidate and self.rules.approval_clears:
            self.candidate, self.crash_count = False, 0

    def came_back(self, attempt: int, failures: int) -> bool:
        """A broker gives it back as a dead letter of an attempt; return False where nobody can say yet what it is."""
        if (self.state, attempt) == ("DLVD", self.attempt_number):
            self.failure_count += failures
            self._stop("returned")
        return (self.state, attempt) != ("DLNG", self.attempt_number)

    def given_up(self) -> None:
        self.state, self.reason = "FAIL", "failed_by_admin"

    def restored(self) -> None:
        self.state, self.reason = "NDLV", self.last_stop or self.reason

    def postponed(self) -> None:
        self.is_due = False

    def quarantined(self) -> None:
        self._stop("quarantined")

    def _accused(self, *, is_counted: bool) -> None:
        if self.rules.blacklists:
            self.candidate = True
            self.crash_count += is_counted
            if is_counted and self.crash_count >= CRASH_LIMIT:
                return self._stop("blacklisted")
        self.returned()
        return None

    def _stop(self, reason: str) -> None:
        self.state, self.reason, self.last_stop = "NDLV", reason, reason
