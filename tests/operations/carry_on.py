"""`python -m tests.operations.carry_on`: carry on with all operations, and say when a piece begins."""

import sys
from importlib import import_module
from typing import Any

import django


def main() -> None:
    """Print a line a piece."""
    django.setup()
    operations: Any = import_module("poisonadmin.decisions.operations.commands.operations")
    carried_out = operations.carry_out_piece

    def say(operation: Any) -> bool:
        sys.stdout.write("piece\n")
        sys.stdout.flush()
        return bool(carried_out(operation))

    operations.carry_out_piece = say
    operations.carry_on(seconds=60)


if __name__ == "__main__":
    main()
