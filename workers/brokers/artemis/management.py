"""Questions to Artemis about its queues: its management address answers them, to whoever may `manage` it.

The answers come over an address that all of PoisonAdmin shares; each asks only for its own. Source: Artemis’s manual,
"Management".
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from poisonadmin.sources.domain.broker_checks import FoundQueue
from workers.brokers.artemis.connection import StompConnection
from workers.brokers.contract import BrokerError, is_named_for_dead_letters

_ADDRESS = "activemq.management"
_REPLIES = "poisonadmin.replies"
_SUBSCRIPTION = "answers"
_PAGE = 1000
_MOST_QUEUES = 5000
# Settings are asked for address by address.
_MOST_ADDRESSES = 500
_ANYCAST = "ANYCAST"
MULTICAST = "MULTICAST"


class QuestionRefused(BrokerError):
    """Raised when the broker answers a question with an error; the connection stays open."""


class Management:
    """Asks questions one after the other. Errors of all: `BrokerError`, also where the login may not ask."""

    def __init__(self, connection: StompConnection) -> None:
        self._connection = connection
        self._id = str(uuid.uuid4())
        subscription = {
            "id": _SUBSCRIPTION,
            "destination": _REPLIES,
            "subscription-type": "MULTICAST",
            "selector": f"JMSCorrelationID = '{self._id}'",
            "ack": "auto",
        }
        connection.settle("SUBSCRIBE", subscription, "asking for answers")

    def attribute(self, resource: str, name: str) -> Any:
        """Return an attribute of a resource, such as `queue.orders`. Errors: `QuestionRefused`, `BrokerError`."""
        return self._ask({"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}, [])

    def call(self, resource: str, operation: str, *parameters: Any) -> Any:
        """Return what an operation of a resource returns. Errors: `QuestionRefused`, `BrokerError`."""
        return self._ask({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, list(parameters))

    def _ask(self, question: dict[str, str], parameters: list[Any]) -> Any:
        connection = self._connection
        answers = connection.arrived[_SUBSCRIPTION]
        answers.clear()
        headers = {"destination": _ADDRESS, "reply-to": _REPLIES, "correlation-id": self._id, **question}
        connection.send([("SEND", headers, json.dumps(parameters).encode())])
        connection.until(lambda: bool(answers), "a question")
        answer = answers.popleft()
        try:
            (result, *_) = json.loads(answer.body or b"null") or [None]
        except (ValueError, TypeError):
            raise QuestionRefused("the broker's answer cannot be read") from None
        if answer.headers.get("_AMQ_OperationSucceeded") != "true":
            raise QuestionRefused(str(result)[:500])
        return result


@dataclass(frozen=True, slots=True)
class ArtemisQueue:
    """One queue. `number`: a queue that is made anew under its name has another."""

    number: str
    name: str
    address: str
    is_anycast: bool
    depth: int

    @property
    def routing(self) -> str:
        """The way in which its address hands messages on: to one of its queues, or to each."""
        return _ANYCAST if self.is_anycast else MULTICAST

    @property
    def place(self) -> str:
        """The name in a frame: the queue alone, or with the address that it is not named after."""
        return self.name if self.name == self.address else f"{self.address}::{self.name}"


def queue_named(management: Management, name: str) -> ArtemisQueue | None:
    """Return the queue of a name, `queue` or `address::queue`, None where there is none. Errors: `BrokerError`."""
    address, _, queue = name.rpartition("::")
    found = [one for one in _listed(management, "NAME", queue) if not address or one.address == address]
    return found[0] if found else None


def queues_at(management: Management, address: str) -> list[ArtemisQueue]:
    """Return the queues of an address. Errors: `BrokerError`."""
    return _listed(management, "ADDRESS", address)


def found_queues(connection: StompConnection) -> list[FoundQueue]:
    """Return the queues, those with signs of dead letters first. Errors: `BrokerError`."""
    management = Management(connection)
    queues = _listed(management)
    dead_letters = _dead_letter_addresses(management, sorted({one.address for one in queues}))
    found = [FoundQueue(one.place, one.depth, _why(one, dead_letters)) for one in queues]
    return sorted(found, key=lambda one: (not one.why, one.name))


def _dead_letter_addresses(management: Management, addresses: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for address in addresses[:_MOST_ADDRESSES]:
        try:
            settings = json.loads(management.call("broker", "getAddressSettingsAsJSON", address))
        except (QuestionRefused, ValueError, TypeError):
            continue
        for setting, what in (("deadLetterAddress", "dead letters"), ("expiryAddress", "expired messages")):
            target = settings.get(setting)
            if target and target != address:
                found.setdefault(str(target), f"{what} of {address} go here")
    return found


def _why(queue: ArtemisQueue, dead_letters: dict[str, str]) -> str:
    if queue.address in dead_letters:
        return dead_letters[queue.address]
    return "its name" if is_named_for_dead_letters(queue.name, "expiry") else ""


def _listed(management: Management, field: str = "", value: str = "") -> list[ArtemisQueue]:
    asked = json.dumps({"field": field, "operation": "EQUALS" if field else "", "value": value})
    found: list[ArtemisQueue] = []
    for page in range(1, _MOST_QUEUES // _PAGE + 1):
        try:
            rows = json.loads(management.call("broker", "listQueues", asked, page, _PAGE))["data"]
        except (ValueError, TypeError, KeyError) as error:
            raise BrokerError(f"the broker's list of queues cannot be read: {error}") from None
        found += [_queue(row) for row in rows if _is_shown(row)]
        if len(rows) < _PAGE:
            break
    return found


def _is_shown(row: dict[str, Any]) -> bool:
    return row.get("internalQueue") != "true" and row.get("temporary") != "true"


def _queue(row: dict[str, Any]) -> ArtemisQueue:
    is_anycast = row.get("routingType") == _ANYCAST
    return ArtemisQueue(
        str(row["id"]), str(row["name"]), str(row["address"]), is_anycast, int(row.get("messageCount", 0))
    )
