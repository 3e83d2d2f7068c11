"""A search for groups that look alike in a process and a Spark of its own: a script for a test that kills it.

It writes what it does next, and waits for a line at the phase where it has to stop.
"""

import sys
from importlib import import_module
from typing import Any

import django


def main() -> None:
    """Carry out the search that is requested, and stop at the phase in the first argument."""
    django.setup()
    carry_out: Any = import_module("poisonadmin.groups.alike.commands")
    engine: Any = import_module("poisonadmin.runs.commands.engine")
    job: Any = import_module("workers.spark.jobs.alike")
    session: Any = import_module("workers.spark.session")
    wanted = sys.argv[1]

    def say(phase: str) -> None:
        sys.stdout.write(f"{phase}\n")
        sys.stdout.flush()
        if phase == wanted:
            sys.stdin.readline()

    def stop_at(owner: Any, name: str) -> None:
        step = getattr(owner, name)

        def stopped(*given: Any, **more: Any) -> Any:
            say(name)
            return step(*given, **more)

        setattr(owner, name, stopped)

    stop_at(carry_out, "propose")
    stop_at(engine.RunTurn, "finish")
    spark = session.start_session("killed", master="local[2,4]")

    def compare(asked: Any, report: Any) -> Any:
        def both(phase: str) -> None:
            report(phase)
            say(phase)

        return job.find_alike(spark, asked, both)

    engine.carry_out(carry_out.work(compare), worker="killed")


if __name__ == "__main__":
    main()
