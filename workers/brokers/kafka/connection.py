"""Kafka's client as a source or a destination needs it; and what it is asked about topics."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from poisonadmin.brokers.domain.broker_kinds import KAFKA
from poisonadmin.brokers.domain.broker_urls import BrokerUrl
from poisonadmin.core.domain.ssrf import guard_from
from workers.brokers.connect import broker_url, permitted_addresses
from workers.brokers.contract import BrokerError, Login
from workers.brokers.kafka.resolver import give_servers, refusal

ANSWER_SECONDS = 10.0
NO_ANSWER = "no answer from Kafka"
_CONNECT_MS = 5000
_DEFAULT_GROUP = "poisonadmin"

_Client = TypeVar("_Client")


def client(kind: Callable[[dict[str, Any]], _Client], login: Login, own: Mapping[str, Any]) -> _Client:
    """Return a client that connects to permitted addresses only; its `own` settings win.

    Errors: `BrokerError`, at once where a server of the login is not permitted.
    """
    where = broker_url(KAFKA, login)
    guard = guard_from(os.environ)
    for host, port in where.hosts:
        permitted_addresses(host, port, guard=guard)
    made = kind(_settings(login, where) | dict(own))
    servers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in where.hosts]
    give_servers(made, ",".join(servers))
    return made


def admin(login: Login) -> AdminClient:
    """Return a client for questions. Errors: `BrokerError`."""
    return client(AdminClient, login, {})


def consumer(login: Login, own: Mapping[str, Any]) -> Consumer:
    """Return a client of the source's group. Errors: `BrokerError`."""
    return client(Consumer, login, {"group.id": str(login.options.get("group") or _DEFAULT_GROUP), **own})


def metadata(client: Any, *, seconds: float | None = None) -> dict[str, int]:
    """Return each topic with the number of its partitions, asked for `ANSWER_SECONDS` or less. Errors: `BrokerError`.

    All topics are asked for: a broker may make a topic that is asked for by name and is not there. A forbidden address
    among those of the brokers is an error here, before it is one that the client silently cannot reach.
    """
    with asking(NO_ANSWER, client):
        found = client.list_topics(timeout=max(ANSWER_SECONDS if seconds is None else seconds, 0.1))
    guard = guard_from(os.environ)
    for broker in found.brokers.values():
        permitted_addresses(broker.host, broker.port, guard=guard)
    return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}


def partitions(topics: dict[str, int], name: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Errors: `BrokerError` when there is none such."""
    if name not in topics:
        raise BrokerError(f"there is no topic {name!r}")
    return [TopicPartition(name, number) for number in range(topics[name])]


def reason(error: KafkaException, client: Any) -> str:
    """Return what an exception of the client says, as an administrator reads it; or what it was kept from."""
    cause = error.args[0] if error.args else error
    text = cause.str() if hasattr(cause, "str") else str(cause)
    return (refusal(client) or str(text))[:500]


@contextmanager
def asking(what: str, client: Any) -> Iterator[None]:
    """Raise what the client raises meanwhile as a `BrokerError` that says what it is about."""
    try:
        yield
    except KafkaException as error:
        raise BrokerError(f"{what}: {reason(error, client)}") from None


def _settings(login: Login, where: BrokerUrl) -> dict[str, Any]:
    """Return what all clients have in common, but for the servers: those come when the client can be let connect."""
    protocol = ("SASL_" if login.username else "") + ("SSL" if where.is_encrypted else "PLAINTEXT")
    found: dict[str, Any] = {
        "client.id": "poisonadmin",
        "security.protocol": protocol,
        "socket.connection.setup.timeout.ms": _CONNECT_MS,
        "socket.keepalive.enable": True,
        # Errors come as exceptions, and none shall go to standard error besides.
        "log_level": 0,
        "error_cb": _nothing,
    }
    if login.username:
        found["sasl.mechanism"] = str(login.options.get("sasl_mechanism", "PLAIN"))
        found["sasl.username"], found["sasl.password"] = login.username, login.password
    if where.is_encrypted and not login.verifies_tls:
        found["enable.ssl.certificate.verification"] = False
    return found


def _nothing(_error: Any) -> None:
    return None
