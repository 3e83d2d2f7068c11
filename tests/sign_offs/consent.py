"""`python -m tests.sign_offs.consent OPERATION`: consent to an operation in a process that can be killed."""

import sys
from importlib import import_module
from typing import Any

import django


def main(operation_id: int) -> None:
    """Consent."""
    django.setup()
    race: Any = import_module("tests.sign_offs.test_races")
    race.decided(operation_id, race.CONSENT, "killed")


if __name__ == "__main__":
    main(int(sys.argv[1]))
