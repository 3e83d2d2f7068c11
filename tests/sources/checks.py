"""Broker checks, made as the tick of an io worker makes them."""

from typing import Any

from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.sources.commands.broker_checks import CHECK_SECONDS, BrokerChecker, work
from poisonadmin.sources.domain.broker_checks import BrokerCheckResult


def make_checks(check: BrokerChecker, *, seconds: float = CHECK_SECONDS) -> int:
    """Make the requested checks; return how many."""
    calls: list[Any] = []

    def counted(*arguments: Any) -> BrokerCheckResult:
        calls.append(arguments)
        return check(*arguments)

    carry_out(work(counted, seconds=seconds), worker="io")
    return len(calls)
