"""Three seeded faults under load; `make faults` has the others, and other seeds."""

import pytest

from tests.faults import f05_processes, f09_database
from tests.faults.run import Fault, run
from tests.system.installation import Installation

FAULTS = {f"{fault.family} {fault.name}": fault for fault in (*f05_processes.FAULTS, *f09_database.FAULTS)}


@pytest.mark.parametrize(
    ("fault", "seed"),
    [
        (FAULTS["F7 Python worker"], 11),
        (FAULTS["F9 immediate stop, claim"], 12),
        (FAULTS["F5 all workers"], 13),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else str(value),
)
def test_every_invariant_holds_after(fault: Fault, seed: int, installation: Installation) -> None:
    result = run(installation, fault, seed)
    print(result)
    assert result.wrong == ()
