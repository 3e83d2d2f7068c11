"""Runs Python programs one after another, each in a child that has imported already what all of them import.

Reads a JSON list of objects with `program`, as on a command line, and `environment`; prints a JSON list of the exit
status, the standard output and the standard error of each. Imports take most of the time of a program that ends soon.
"""

import json
import os
import runpy
import sys
import tempfile
import traceback

import django.core.management.commands.check  # noqa: F401  (for the children)

import poisonadmin.environment  # noqa: F401  (for the children)


def run(program: list[str]) -> None:
    """Run `file.py argument…` or `-c code`, as the interpreter does."""
    if program[0] == "-c":
        exec(program[1], {"__name__": "__main__"})
        return
    sys.argv = program
    runpy.run_path(program[0], run_name="__main__")


def in_child(program: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
    """Run it in a forked child; return its exit status and all that it has printed."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        pid = os.fork()
        if not pid:
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            os.environ.clear()
            os.environ.update(environment)
            status = 0
            try:
                run(program)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(bool(end.code))
                if isinstance(end.code, str):
                    print(end.code, file=sys.stderr)
            except BaseException:
                status = 1
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(status)
        _, waited = os.waitpid(pid, 0)
        output.seek(0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(waited), output.read(), errors.read()


if __name__ == "__main__":
    assert "poisonadmin.settings" not in sys.modules, "each program reads its own environment"
    json.dump([in_child(**asked) for asked in json.load(sys.stdin)], sys.stdout)
