"""The scope of an alert rule, as its queries take it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from poisonadmin.alerts.domain.kinds import AlertKind
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.core.queries.scope import address_ids
from poisonadmin.core.queries.sql import TRUE, Sql, name
from poisonadmin.store.models.alert import AlertRule


@dataclass(frozen=True)
class Watched:
    """The scope of a rule. `address_ids` None: every address. `limit`: the kind's, zero where it has none.

    `patterns`: of the addresses; `search`: what messages are narrowed to; `growth`: how much groups grow.
    """

    address_ids: Sequence[int] | None
    limit: timedelta
    patterns: Sequence[str] = (ANY_WORDS,)
    search: str = ""
    growth: str = ""

    def condition(self, column: str) -> Sql:
        """Return the condition that `column` is one of the addresses."""
        if self.address_ids is None:
            return TRUE
        return Sql("{column} = ANY({ids})", column=name(column), ids=self.address_ids)

    @property
    def holds_all(self) -> Sql:
        """The condition that all messages of a `selection s` were on these addresses."""
        return TRUE if self.address_ids is None else Sql("s.address_ids <@ {ids}::bigint[]", ids=self.address_ids)


def watched(rule: AlertRule, kind: AlertKind) -> Watched:
    """Return what a rule watches for a kind of alerts."""
    ids = None if ANY_WORDS in rule.addresses else address_ids(rule.addresses)
    limit = timedelta(minutes=rule.limits.get(kind, 0))
    return Watched(ids, limit, rule.addresses, rule.search, rule.growth)
