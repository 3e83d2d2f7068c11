"""Questions to Artemis about its queues: its management address answers them, to whoever may `manage` it.

The answers come over an address that all of PoisonAdmin shares; each asks only for its own. Source: Artemis’s manual,
"Management".
"""

import json
import uuid
from typing import Any

from workers.brokers.artemis.connection import StompConnection
from workers.brokers.contract import BrokerError

_ADDRESS = "activemq.management"
_REPLIES = "poisonadmin.replies"
_SUBSCRIPTION = "answers"


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
