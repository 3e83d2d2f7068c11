"""Seeded faults under load, four with HTTP consumers and three with handlers; `make faults` has the others."""

import pytest

from tests.faults import f05_processes, f07_spark, f09_database, f18_stopped
from tests.faults.handler_run import run_handlers
from tests.faults.run import Fault, run
from tests.whole_system.installation import Installation

FAULTS = {
    f"{fault.family} {fault.name}": fault
    for family in (f05_processes, f07_spark, f09_database, f18_stopped)
    for fault in family.FAULTS
}


@pytest.mark.long
@pytest.mark.usefixtures("batch_worker")
@pytest.mark.parametrize(
    ("fault", "seed"),
    [
        (FAULTS["F7 Python worker"], 11),
        (FAULTS["F9 immediate stop, claim"], 12),
        (FAULTS["F5 all workers"], 13),
        (FAULTS["F18 SIGSTOP of valkey"], 17),
        (FAULTS["F1 handlers sandboxes"], 14),
        (FAULTS["F7 handlers Python worker"], 15),
        (FAULTS["F7 handlers group"], 16),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else str(value),
)
def test_every_invariant_holds_after(fault: Fault, seed: int, installation: Installation) -> None:
    result = (run_handlers if fault.to_handlers else run)(installation, fault, seed)
    print(result)
    assert result.wrong == ()
