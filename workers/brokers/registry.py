"""Which adapter serves which kind of broker; imported when first asked for, since each brings a client library."""

from functools import cache
from importlib import import_module
from typing import cast

from workers.brokers.contract import Adapter

KINDS = ("rabbitmq", "artemis", "kafka")


@cache
def adapter(kind: str) -> Adapter:
    """Return the adapter of a kind; each `workers/brokers/<kind>/adapter.py` has one, named ADAPTER."""
    if kind not in KINDS:
        raise LookupError(f"{kind} is no kind of broker; known are {', '.join(KINDS)}.")
    return cast("Adapter", import_module(f"workers.brokers.{kind}.adapter").ADAPTER)
