"""A handler destination as an administrator sets it up through the API, and what its handler has seen."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.whole_system.installation import PoisonAdmin, until

Json = dict[str, Any]
HANDLERS = Path(__file__).parents[1] / "handlers"
PROMPT: Json = {"redelivery_delay": 200, "redelivery_collision_avoidance_factor": 0, "max_delivery_attempts": 3}
LIMITS: Json = {"memory_mb": 128, "cpu_seconds": 1, "timeout_ms": 3000}


@dataclass(frozen=True)
class HandlerDestination:
    """What `<name>.#` is handled by, and how one asks about it."""

    installation: PoisonAdmin
    name: str
    notes: Path

    @classmethod
    def create(
        cls,
        installation: PoisonAdmin,
        name: str,
        *,
        callable: str = "noting:handle",  # noqa: A002
        config: Json | None = None,
        preset: str | None = None,
        **settings: object,
    ) -> "HandlerDestination":
        """Create the destination and the policy; waits are short and attempts few where `settings` do not say so."""
        body = {"name": name, "kind": "handler", "config": {"callable": callable} | LIMITS | (config or {})}
        installation.post("destinations/", body)
        destination = cls(installation, name, installation.home / f"{name}.notes")
        destination.configure(preset=preset, **settings)
        return destination

    def configure(self, *, preset: str | None = None, **settings: object) -> None:
        """Save the policy, with these settings and no others beside those that keep waits short."""
        match = f"{self.name}.#"
        policy = {"match": match, "settings": PROMPT | settings, "destination": self.name}
        policy |= {"preset": preset} if preset else {}
        former = self.installation.rows("SELECT id FROM policy WHERE match = %s", [match])
        place = ("PUT", f"policies/{former[0][0]}/") if former else ("POST", "policies/")
        self.installation.ask(*place, policy).expect(200, 201)

    @property
    def address(self) -> str:
        """The address that the messages go to."""
        return f"{self.name}.orders"

    def send(self, deed: str, **fields: Any) -> int:
        """Hand in a message that the handler is to treat so, and return its id."""
        body = {"address": self.address, "payload": deed, "headers": {"notes": str(self.notes)}} | fields
        return int(self.installation.post("messages/", body)["id"])

    def send_all(self, deeds: Sequence[str]) -> None:
        """Hand in many at once; the producer's id of each is its place."""
        lines = [
            json.dumps(
                {
                    "address": self.address,
                    "payload": deed,
                    "message_id": str(place),
                    "headers": {"notes": str(self.notes)},
                }
            )
            for place, deed in enumerate(deeds)
        ]
        answer = self.installation.ask("POST", "messages/batch/", "\n".join(lines).encode(), seconds=120).expect(202)
        assert answer["accepted"] == len(deeds), answer

    def places(self, condition: str) -> list[int]:
        """Return the places, as `send_all` gave them, of this destination's messages that meet an SQL condition."""
        rows = self.installation.rows(
            f"""SELECT envelope.message_id::int FROM message JOIN envelope USING (id)
                JOIN address ON address.id = message.address_id
                WHERE address.name = %s AND ({condition}) ORDER BY 1""",
            [self.address],
        )
        return [place for (place,) in rows]

    def is_quiet(self) -> bool:
        """Return whether nothing waits and nothing is under way."""
        return not self.places("state IN ('TBDL', 'DLNG')")

    def until_quiet(self, seconds: float) -> None:
        """Return when everything is decided; fail otherwise."""
        until(self.is_quiet, seconds, lambda: self.places("state IN ('TBDL', 'DLNG')")[:20])

    def message(self, message_id: int) -> Json:
        """Return the message as the API shows it."""
        found: Json = self.installation.get(f"messages/{message_id}/")
        return found

    def until(self, message_id: int, state: str, seconds: float = 30) -> Json:
        """Return the message once it is in the state; fail, with its history, when it is not in time."""
        until(lambda: self.message(message_id)["state"] == state, seconds, lambda: self.events(message_id))
        return self.message(message_id)

    def decide(self, message_id: int, decision: str) -> Json:
        """Approve, mark FAIL and so on, with a reason."""
        done: Json = self.installation.post(f"messages/{message_id}/{decision}/", {"reason": "a test"})
        return done

    def events(self, message_id: int) -> list[str]:
        """Return the events of its history, oldest first."""
        rows: list[Json] = self.installation.get(f"messages/{message_id}/history/")["results"]
        return [row["event"] for row in rows[::-1]]

    def attempts(self, message_id: int) -> list[Json]:
        """Return its failure log, oldest first."""
        rows: list[Json] = self.installation.get(f"messages/{message_id}/attempts/")["results"]
        return rows[::-1]

    def seen(self) -> Counter[int]:
        """Return how often the handler has seen each message."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return Counter(int(line.split()[0]) for line in lines)

    def seen_of(self, ids: Iterable[int]) -> list[int]:
        """Return how often the handler has seen each of these."""
        seen = self.seen()
        return [seen[message_id] for message_id in ids]
