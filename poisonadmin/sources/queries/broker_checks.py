"""Broker checks, each for the account that requested it."""

from dataclasses import dataclass
from datetime import timedelta

from poisonadmin.core.domain.access import Permission, Principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.core.queries.rows import database_time
from poisonadmin.runs.domain.kinds import KindName, RunState
from poisonadmin.runs.queries.runs import RunFields, StoredRun, find_run
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult, result_from

# A check that waits longer is shown as failed: no io worker runs.
PATIENCE = timedelta(seconds=60)
_OVERDUE = {"state": str(RunState.FAILED), "error": "No worker has answered; is an io worker running?"}


@dataclass(frozen=True)
class BrokerCheckRow(RunFields):
    """A broker check of a broker of this kind; `result` is null until it has succeeded."""

    purpose: str
    kind: str
    source_id: int | None
    result: BrokerCheckResult | None

    @property
    def is_waiting(self) -> bool:
        """True while a result may come."""
        return self.state in (RunState.QUEUED, RunState.RUNNING)


def get_broker_check(check_id: int, *, principal: Principal) -> BrokerCheckRow:
    """Return the check that this principal requested; raise NotFound."""
    principal.require(Permission.READ)
    run = find_run(KindName.BROKER_CHECK, check_id) if principal.sees_everything else None
    if run is None or run.requested_by != principal.name:
        raise NotFound(f"There is no broker check {check_id}. Results are kept for 15 minutes.")
    return BrokerCheckRow(
        **run.shown | (_OVERDUE if _is_overdue(run) else {}),
        purpose=run.params["purpose"],
        kind=run.params["kind"],
        source_id=run.params["source_id"],
        result=None if run.result is None else result_from(run.result),
    )


def _is_overdue(run: StoredRun) -> bool:
    return run.state == RunState.QUEUED and run.created_at + PATIENCE < database_time()
