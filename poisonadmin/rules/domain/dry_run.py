"""The result of a dry run on stored messages: found part by part, added up, by failure group and address."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from poisonadmin.rules.domain.rules import RuleDefinition, Stage

SAMPLES = 10
# Failure groups on addresses; what is beyond is counted and not named.
MAX_PLACES = 200

Place = tuple[str, int | None]
"""An address, and the failure group that a message on it belongs to."""


@dataclass(frozen=True)
class Trial:
    """A rule to be tried on the messages on these addresses."""

    stage: Stage
    rule: RuleDefinition
    address_ids: tuple[int, ...]


@dataclass
class Found:
    """The result of the rule in some ranges. `places`: how many it matched, and the first ids, by place."""

    read: int = 0
    matched: int = 0
    places: dict[Place, tuple[int, list[int]]] = field(default_factory=dict)
    error: str | None = None

    def see(self, address: str, group_id: int | None, message_id: int) -> None:
        """Count a message that the rule matches."""
        self.matched += 1
        count, samples = self.places.get((address, group_id), (0, []))
        if len(samples) < SAMPLES:
            samples.append(message_id)
        self.places[address, group_id] = (count + 1, samples)

    def add(self, other: "Found") -> None:
        """Add what was found in a range behind this one's."""
        self.read += other.read
        self.matched += other.matched
        self.error = self.error or other.error
        for place, (count, samples) in other.places.items():
            mine, kept = self.places.get(place, (0, []))
            self.places[place] = (mine + count, (kept + samples)[:SAMPLES])

    def as_json(self) -> dict[str, Any]:
        """Return it as `from_json` takes it: the places with most messages first, at most `MAX_PLACES`.

        >>> found = Found(read=3)
        >>> found.see("orders.eu", 7, 1001)
        >>> found.as_json()["found"]
        [{'address': 'orders.eu', 'group_id': 7, 'matched': 1, 'samples': [1001]}]
        """
        most = sorted(self.places.items(), key=lambda item: (-item[1][0], item[0][0], item[0][1] or 0))
        places = [
            {"address": address, "group_id": group_id, "matched": count, "samples": samples}
            for (address, group_id), (count, samples) in most[:MAX_PLACES]
        ]
        return {"read": self.read, "matched": self.matched, "found": places}


def from_json(read: int, matched: int, found: Iterable[dict[str, Any]]) -> Found:
    """Return what was found so far, as it was stored."""
    return Found(
        read, matched, {(one["address"], one["group_id"]): (one["matched"], list(one["samples"])) for one in found}
    )
