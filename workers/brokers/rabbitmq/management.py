"""Which queues a RabbitMQ has, asked of its management plugin: AMQP 0-9-1 has no such question."""

import base64
import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from poisonadmin.brokers.domain.broker_kinds import RABBITMQ
from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.connect import broker_url, open_socket
from workers.brokers.contract import BrokerError, Login, is_named_for_dead_letters
from workers.brokers.rabbitmq.connection import credentials

_PORTS = {"http": 15672, "https": 15671}
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_KEY = "x-dead-letter-routing-key"
_EXCHANGE = "x-dead-letter-exchange"


def found_queues(login: Login) -> list[FoundQueue]:
    """Return the virtual host's queues, those with signs of dead letters first. Errors: `BrokerError`."""
    where = broker_url(RABBITMQ, login)
    vhost = quote(where.virtual_host, safe="")
    queues = _asked(login, f"/api/queues/{vhost}")
    bindings = _asked(login, f"/api/bindings/{vhost}")
    policies = [one.get("definition") or {} for one in _asked(login, f"/api/policies/{vhost}")]
    targets = _dead_letter_targets(queues, bindings, policies)
    found = [FoundQueue(str(one["name"]), one.get("messages"), _why(str(one["name"]), targets)) for one in queues]
    return sorted(found, key=lambda one: (not one.why, one.name))


def _dead_letter_targets(
    queues: list[dict[str, Any]], bindings: list[dict[str, Any]], policies: list[dict[str, Any]]
) -> dict[str, str]:
    """Return which queues dead letters go to, each with what says so.

    A queue's arguments or a policy name an exchange, and perhaps a key; without a name it is the default exchange.
    """
    routes: list[tuple[str, str | None, str]] = []
    for queue in queues:
        arguments = queue.get("arguments") or {}
        if _EXCHANGE in arguments:
            key = arguments.get(_KEY, queue.get("name"))
            routes.append((str(arguments[_EXCHANGE]), str(key), f"dead letters of {queue.get('name')} go here"))
    for definition in policies:
        if "dead-letter-exchange" in definition:
            key = definition.get("dead-letter-routing-key")
            routes.append((str(definition["dead-letter-exchange"]), key, "a policy sends dead letters here"))
    found: dict[str, str] = {}
    for exchange, key, why in routes:
        for binding in bindings:
            is_there = binding.get("source") == exchange and binding.get("destination_type") == "queue"
            if is_there and (exchange or binding.get("routing_key") == key):
                found.setdefault(str(binding.get("destination")), why)
    return found


def _why(name: str, targets: dict[str, str]) -> str:
    if name in targets:
        return targets[name]
    return "its name says so" if is_named_for_dead_letters(name, "dlx") else ""


def _asked(login: Login, path: str) -> list[dict[str, Any]]:
    url = _management_url(login)
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    host = parts.hostname or ""
    asking = http.client.HTTPConnection(host, port)
    asking.sock = open_socket(host, port, with_tls=parts.scheme == "https", verify_tls=login.verifies_tls)
    secret = base64.b64encode(":".join(credentials(login)).encode()).decode()
    try:
        asking.request("GET", parts.path.rstrip("/") + path, headers={"Authorization": f"Basic {secret}"})
        answer = asking.getresponse()
        raw = answer.read(_MAX_ANSWER_BYTES + 1)
        if answer.status != 200 or len(raw) > _MAX_ANSWER_BYTES:
            raise BrokerError(f"{url} answered {answer.status} {answer.reason}"[:300])
        found = json.loads(raw)
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise BrokerError(f"{url} cannot be asked: {error}"[:300]) from None
    finally:
        asking.close()
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _management_url(login: Login) -> str:
    if (configured := login.options.get("management_url")) is not None:
        return str(configured)
    where = broker_url(RABBITMQ, login)
    host = where.hosts[0][0]
    scheme = "https" if where.is_encrypted else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{_PORTS[scheme]}"
