"""Which brokers a run tests against: those that the environment variable BROKER names, RabbitMQ where it names none."""

import os

from poisonadmin.brokers.domain.broker_kinds import BROKERS

KINDS = tuple(BROKERS)


def chosen_brokers() -> tuple[str, ...]:
    """Return the kinds named in BROKER, separated by spaces or commas; fail at one that is none."""
    named = tuple(os.environ.get("BROKER", "").replace(",", " ").split()) or ("rabbitmq",)
    assert set(named) <= set(KINDS), f"BROKER names {', '.join(KINDS)}, not {' '.join(named)}"
    return named
