"""The processes of PoisonAdmin, as children of the supervisor."""

import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from poisonadmin.embedded.processes import ChildSpec, RestartRule

PROJECT = Path(__file__).resolve().parents[2]
IO_SECONDS, BATCH_SECONDS = 5.0, 8.0
SERVICES = frozenset({"postgres", "valkey"})


@dataclass(frozen=True)
class Plan:
    """The processes on top of the services, each made from the environment that it is to have."""

    # Run to their ends, side by side, before anything else.
    before: Callable[[Mapping[str, str]], Sequence[ChildSpec]]
    # Run to its end; what it prints is for the user to read.
    bootstrap: Callable[[Mapping[str, str]], ChildSpec]
    # Started, and waited for until /healthz answers on the given port.
    web: Callable[[Mapping[str, str], int], ChildSpec]
    # Started last, in this order; the path is the data directory.
    after: Callable[[Mapping[str, str], Path], Sequence[ChildSpec]] = lambda *_: []
    # Started as soon as the first ones have ended, so that they start beside the web process.
    workers: Callable[[Mapping[str, str], Path], Sequence[ChildSpec]] = lambda *_: []
    # What all of it finds in its environment, made from the supervisor's own.
    prepared: Callable[[Mapping[str, str]], Mapping[str, str]] = dict
    # Whether some of it needs Spark.
    needs_spark: bool = False


def migrate(environment: Mapping[str, str]) -> ChildSpec:
    """Bring the database to this version's tables."""
    return _manage("migrate", environment, "migrate", "--no-input", "--verbosity", "0")


def _collect_static(environment: Mapping[str, str]) -> ChildSpec:
    """Put the front-end files where the web process serves them from, named by their content."""
    return _manage("collectstatic", environment, "collectstatic", "--no-input", "--verbosity", "0")


def bootstrap(environment: Mapping[str, str]) -> ChildSpec:
    """Make the first user and token where there are none."""
    return _manage("bootstrap", environment, "bootstrap")


def bring_back_spec(environment: Mapping[str, str], file: Path) -> ChildSpec:
    """Bring a backup into the empty database."""
    return _manage("restore", environment, "restore", str(file))


def web(environment: Mapping[str, str], port: int) -> ChildSpec:
    """The dashboard and the API, on the loopback interface."""
    return _python(
        "web",
        dict(environment) | {"POISONADMIN_DB_POOL": "true"},
        *("poisonadmin.serve", "--host", "127.0.0.1", "--port", str(port)),
    )


def _background(environment: Mapping[str, str], home: Path) -> list[ChildSpec]:
    """The workers and the beat, in the order of their start.

    What starts side by side on two cores keeps the first redelivery waiting.
    """
    return [
        _worker("spark-redelivery", environment, "--pool=solo"),
        _celery("beat", environment, "beat", "-s", str(home / "beat-schedule")),
        replace(_worker("io", environment, "--pool=threads", "--concurrency", "2"), start_after_seconds=IO_SECONDS),
        replace(_worker("spark-batch", environment, "--pool=solo"), start_after_seconds=BATCH_SECONDS),
    ]


def sample(environment: Mapping[str, str]) -> list[ChildSpec]:
    """The sample: its consumers, and what configures them and hands in the messages, once."""
    return [
        _python("consumers", environment, "sample.consumers"),
        _manage("sample", environment, "load_sample", "--keep-going"),
    ]


def _with_sample_handlers(environment: Mapping[str, str]) -> dict[str, str]:
    """Let the sample's handlers be imported, besides those that are configured already.

    They are ours, and run as whoever starts the sample, in whosever home it may be.
    """
    directories = filter(None, [environment.get("POISONADMIN_HANDLER_PATH"), str(PROJECT / "sample" / "handlers")])
    user = environment.get("POISONADMIN_SANDBOX_USER") or pwd.getpwuid(os.geteuid()).pw_name
    return dict(environment) | {
        "POISONADMIN_HANDLER_PATH": os.pathsep.join(directories),
        "POISONADMIN_SANDBOX_USER": user,
    }


UP = Plan(
    before=lambda environment: [migrate(environment), _collect_static(environment)],
    bootstrap=bootstrap,
    web=web,
    workers=_background,
    needs_spark=True,
)
DEMO = replace(
    UP,
    after=lambda environment, _: sample(environment),
    prepared=_with_sample_handlers,
)


def _worker(queue: str, environment: Mapping[str, str], *options: str) -> ChildSpec:
    # Workers need not know of each other; to ask for others takes a second of each start.
    alone = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    named = ("-Q", queue, "-n", f"{queue}@%h", "--loglevel=WARNING")
    return _celery(queue, environment, "worker", *named, *alone, *options)


def _celery(name: str, environment: Mapping[str, str], *arguments: str) -> ChildSpec:
    return _python(name, environment, "celery", "--quiet", "-A", "workers.celery_app", *arguments)


def _manage(name: str, environment: Mapping[str, str], *arguments: str) -> ChildSpec:
    return ChildSpec(
        name=name,
        command=[sys.executable, PROJECT / "manage.py", *arguments],
        environment=environment,
        working_directory=PROJECT,
        restart=RestartRule.ON_FAILURE,
    )


def _python(name: str, environment: Mapping[str, str], *arguments: str) -> ChildSpec:
    return ChildSpec(
        name=name,
        command=[sys.executable, "-m", *arguments],
        environment=environment,
        working_directory=PROJECT,
    )
