"""Rules as tests write them."""

from typing import Any

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.rules import commands
from poisonadmin.rules.commands import enable_rule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.store.models.rule import Rule

WHY: dict[str, Any] = {"principal": SYSTEM, "reason": "test"}
NEGATIVE = {"json": [{"path": "$.amount", "outside": {"min": 0}}]}


def rule(
    name: str,
    match: dict[str, Any],
    action: dict[str, Any] | str,
    *,
    stage: str = "before",
    is_on: bool = True,
    **more: Any,
) -> Rule:
    """Return a new rule, switched on."""
    does = {"do": action} if isinstance(action, str) else action
    row = commands.create_rule(stage, RuleFields(name=name, match=match, action=does, **more), principal=SYSTEM)
    return enable_rule(row.id, override=True, **WHY) if is_on else row
