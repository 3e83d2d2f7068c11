"""How Kafka's client is set up for a source or a destination; and what it is asked about topics."""

import os
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from poisonadmin.core.domain.ssrf import guard_from
from poisonadmin.sources.domain.broker_kinds import KAFKA
from workers.brokers.connect import broker_url, permitted_addresses
from workers.brokers.contract import BrokerError, Login

ANSWER_SECONDS = 10.0
_CONNECT_MS = 5000
_DEFAULT_GROUP = "poisonadmin"


def settings(login: Login) -> dict[str, Any]:
    """Return the client's settings; what may not be connected to raises `BrokerError`.

    The client resolves names and connects by itself: what it is given is checked before, and `metadata` checks the
    brokers that these name.
    """
    where = broker_url(KAFKA, login)
    guard = guard_from(os.environ)
    for host, port in where.hosts:
        permitted_addresses(host, port, guard=guard)
    protocol = ("SASL_" if login.username else "") + ("SSL" if where.is_encrypted else "PLAINTEXT")
    found: dict[str, Any] = {
        "bootstrap.servers": ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in where.hosts
        ),
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


def consumer_settings(login: Login) -> dict[str, Any]:
    """Return the settings of a client of the source's group. Errors: `BrokerError`."""
    return settings(login) | {"group.id": str(login.options.get("group") or _DEFAULT_GROUP)}


def metadata(client: Any, *, seconds: float | None = None) -> dict[str, int]:
    """Return each topic with the number of its partitions, asked for `ANSWER_SECONDS` or less. Errors: `BrokerError`.

    All topics are asked for: a broker may make a topic that is asked for by name and is not there.
    """
    try:
        found = client.list_topics(timeout=max(ANSWER_SECONDS if seconds is None else seconds, 0.1))
    except KafkaException as error:
        raise BrokerError(f"no answer from Kafka: {reason(error)}") from None
    guard = guard_from(os.environ)
    for broker in found.brokers.values():
        permitted_addresses(broker.host, broker.port, guard=guard)
    return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}


def admin(login: Login) -> AdminClient:
    """Return a client for questions."""
    return AdminClient(settings(login))


def partitions(topics: dict[str, int], name: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Errors: `BrokerError` when there is none such."""
    if name not in topics:
        raise BrokerError(f"there is no topic {name!r}")
    return [TopicPartition(name, number) for number in range(topics[name])]


def reason(error: KafkaException) -> str:
    """Return what an exception says, as an administrator reads it."""
    cause = error.args[0] if error.args else error
    text = cause.str() if hasattr(cause, "str") else str(cause)
    return str(text)[:500]


def _nothing(_error: Any) -> None:
    return None
