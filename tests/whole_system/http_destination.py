"""A consumer with its destination and policy, as an administrator sets them up through the API."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.whole_system.consumer import Arrival, Consumer
from tests.whole_system.installation import PoisonAdmin, until

Json = dict[str, Any]
CreateHttpDestination = Callable[..., "HttpDestination"]
PROMPT: Json = {"redelivery_delay": 200, "redelivery_collision_avoidance_factor": 0, "max_delivery_attempts": 3}


@dataclass(frozen=True)
class HttpDestination:
    """What `<name>.#` delivers to, and how one asks about it."""

    installation: PoisonAdmin
    name: str
    consumer: Consumer

    @classmethod
    def create(
        cls,
        installation: PoisonAdmin,
        name: str,
        consumer: Consumer,
        *,
        destination: Json | None = None,
        preset: str | None = None,
        **settings: object,
    ) -> "HttpDestination":
        """Create the destination and the policy; waits are short and attempts few where `settings` do not say so."""
        config = {"url": consumer.url, "timeout_ms": 30_000} | (destination or {})
        installation.post("destinations/", {"name": name, "kind": "http", "config": config})
        policy = {"match": f"{name}.#", "settings": PROMPT | settings, "destination": name}
        installation.post("policies/", policy | ({"preset": preset} if preset else {}))
        return cls(installation, name, consumer)

    @property
    def address(self) -> str:
        """The address that most messages go to."""
        return f"{self.name}.orders"

    def send(self, payload: str = "a body", **fields: Any) -> int:
        """Hand a message in and return its id."""
        body = {"address": self.address, "payload": payload} | fields
        return int(self.installation.post("messages/", body)["id"])

    def message(self, message_id: int) -> Json:
        """Return the message as the API shows it."""
        found: Json = self.installation.get(f"messages/{message_id}/")
        return found

    def until(self, message_id: int, state: str, seconds: float = 30) -> Json:
        """Return the message once it is in the state; fail, with its history, when it is not in time."""
        until(lambda: self.message(message_id)["state"] == state, seconds, lambda: self.history(message_id))
        return self.message(message_id)

    def decide(self, message_id: int, decision: str, **fields: Any) -> Json:
        """Approve, mark FAIL and so on, with a reason."""
        done: Json = self.installation.post(f"messages/{message_id}/{decision}/", {"reason": "a test"} | fields)
        return done

    def history(self, message_id: int) -> list[Json]:
        """Return its changes of state, oldest first."""
        found: list[Json] = self.installation.get(f"messages/{message_id}/history/")["results"]
        return found[::-1]

    def events(self, message_id: int) -> list[str]:
        """Return the events of its history, oldest first."""
        return [row["event"] for row in self.history(message_id)]

    def arrivals(self, message_id: int) -> list[Arrival]:
        """Return the requests by which the message came to the consumer."""
        return [one for one in list(self.consumer.arrivals) if one.message_id == message_id]
