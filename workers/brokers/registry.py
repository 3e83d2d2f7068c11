"""Which adapter serves which kind of broker; imported when first asked for, since each brings a client library."""

from functools import cache
from importlib import import_module
from typing import cast

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from workers.brokers.contract import Adapter


@cache
def adapter(kind: str) -> Adapter:
    """Return the adapter of a kind; each `workers/brokers/<kind>/adapter.py` has one, named ADAPTER."""
    if kind not in BROKERS:
        raise LookupError(f"{kind} is no kind of broker; known are {', '.join(BROKERS)}.")
    return cast("Adapter", import_module(f"workers.brokers.{kind}.adapter").ADAPTER)
