"""A source as its row has it: the login is read by whoever connects, and is in no job's options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from poisonadmin.brokers.domain.broker_kinds import SOURCE_DEFAULTS
from workers.brokers.contract import BrokerError, Login, Shard
from workers.brokers.registry import adapter

_SOURCE = "SELECT kind, config, secrets FROM source WHERE id = %s AND is_enabled"


@dataclass(frozen=True)
class BrokerSource:
    """A source that is drained. `template`: which address its messages are taken in at."""

    kind: str
    login: Login
    template: str


def read_source(database_url: str, source_id: int) -> BrokerSource:
    """Return the source; raise `BrokerError` when it is gone or switched off."""
    with psycopg.connect(database_url, connect_timeout=5) as connection:
        row = connection.execute(_SOURCE, [source_id]).fetchone()
    if row is None:
        raise BrokerError("the source is switched off or gone")
    kind, config, secrets = row
    login = login_of(kind, config, secrets)
    return BrokerSource(kind, login, login.options["address"])


def login_of(kind: str, config: Mapping[str, Any], secrets: Mapping[str, str]) -> Login:
    """Return how a source with this configuration is reached."""
    options = {**SOURCE_DEFAULTS[kind], **config}
    return Login(config["url"], secrets.get("username", ""), secrets.get("password", ""), options)


def depth_of(database_url: str, source_id: int) -> int | None:
    """Return how many messages wait in the source's queues, None where nobody can say. Errors: `BrokerError`."""
    source = read_source(database_url, source_id)
    return adapter(source.kind).depth(source.login)


def shards_of(database_url: str, source_id: int) -> list[Shard]:
    """Return what may be drained side by side. Errors: `BrokerError`."""
    source = read_source(database_url, source_id)
    return adapter(source.kind).shards(source.login)
