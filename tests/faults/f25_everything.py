"""F25, F20 and the full disk of F9: faults that need an installation of their own kind."""

import contextlib
import os
import time

import psycopg

from tests.faults.kills import until_database_answers
from tests.faults.run import Fault, Scene
from tests.faults.stages import clock_file
from tests.whole_system.installation import until

START_SECONDS = 60
PROMPT_SECONDS = 15


def everything_killed(scene: Scene) -> str:
    """Kill every process at once, and start again on the same disks."""
    scene.installation.kill_everything()
    time.sleep(scene.dice.uniform(0.0, 2.0))
    scene.installation.start_again()
    return "kill -9 of everything, started again"


def clock_steps(scene: Scene) -> str:
    """Step the clock of every process of PoisonAdmin, though not the database's, forth and back."""
    file = clock_file(scene.installation.home)
    ahead, behind = (scene.dice.choice([30, 3600, 86_400]) for _ in range(2))
    steps = scene.dice.choice([[ahead, -behind], [-behind, ahead]])
    for seconds in [*steps, 0]:
        file.write_text(f"{seconds}\n")
        time.sleep(4)
    return f"clock of the workers {steps[0]:+d} s, {steps[1]:+d} s, and right again"


def disk_full(scene: Scene) -> str:
    """Fill the disk of the database, and free it some seconds later."""
    seconds = scene.dice.uniform(3, 6)
    filler = scene.installation.home / "postgres" / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(os.urandom(1 << 16))
            file.flush()
    # Reserved segments of the log are used up first; a checkpoint's worth of writes does that.
    with (
        contextlib.suppress(psycopg.Error),
        psycopg.connect(scene.installation.superuser_url, autocommit=True) as other,
    ):
        other.execute("SELECT pg_switch_wal()")
    time.sleep(seconds)
    filler.unlink()
    until_database_answers(scene.installation)
    return f"disk of the database full for {seconds:.1f} s"


REFUSAL = "has migrations that this version does not know (9999_newer)"


def newer_tables(scene: Scene) -> str:
    """Bring the tables to a later version under the running code, and start processes of the old code on them."""
    said = len(scene.installation.output)
    names = ("web", "io", "spark-redelivery", "beat")
    with psycopg.connect(scene.installation.superuser_url, autocommit=True) as session:
        session.execute("ALTER TABLE message ADD COLUMN newer text DEFAULT 'x'")
        session.execute("CREATE TABLE newer (id bigint)")
        session.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('store', '9999_newer', now())")
    try:
        for name in names:
            scene.installation.process_of(name).kill()
        # What runs goes on; what is started refuses, and says why.
        until(
            lambda: scene.installation.output[said:].count(REFUSAL) >= 3, 60, lambda: scene.installation.output[-900:]
        )
    finally:
        with psycopg.connect(scene.installation.superuser_url, autocommit=True) as session:
            session.execute("ALTER TABLE message DROP COLUMN newer")
            session.execute("DROP TABLE newer")
            session.execute("DELETE FROM django_migrations WHERE name = '9999_newer'")
    return "a later version's tables: what was started refused them and said so"


FAULTS = (
    Fault("F25", "everything", everything_killed, START_SECONDS, web_may_be_away=True),
    Fault("F27", "newer tables", newer_tables, START_SECONDS, web_may_be_away=True),
    Fault("F20", "clock steps", clock_steps, PROMPT_SECONDS, stage="stepping"),
    Fault("F9", "disk full", disk_full, START_SECONDS, stage="small-disk"),
)
