"""Who may write and switch on rules, and when."""

import json

import pytest

from poisonadmin.core.domain.access import SYSTEM, NotAllowed, Role, principal
from poisonadmin.core.domain.errors import AlreadyExists, NotFound, PreconditionFailed
from poisonadmin.rules import commands
from poisonadmin.rules.commands import NotDryRun, disable_rule, enable_rule
from poisonadmin.rules.domain.fields import InvalidRule
from poisonadmin.rules.domain.rules import RuleFields
from poisonadmin.rules.queries import get_rule, list_rules
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.rule import Rule
from tests.rules.ruled import NEGATIVE, WHY, rule


def test_a_rule_before_deliveries_is_switched_on_only_when_it_was_dry_run(db: None) -> None:
    row = rule("careful", NEGATIVE, "reject", is_on=False)
    with pytest.raises(NotDryRun):
        enable_rule(row.id, **WHY)
    Rule.objects.filter(id=row.id).update(checked_version=row.version)
    assert enable_rule(row.id, **WHY).is_enabled
    assert Audit.objects.filter(action="rule.enabled").latest("id").details["without_dry_run"] is False

    noted = commands.replace_rule(
        row.id, RuleFields(name="careful", match=NEGATIVE, action={"do": "reject"}, note="why"), principal=SYSTEM
    )
    assert (noted.is_enabled, noted.checked_version, noted.version) == (True, 2, 2), "it does the same as before"
    changed = commands.replace_rule(
        row.id, RuleFields(name="careful", match={}, action={"do": "reject"}), principal=SYSTEM
    )
    assert (changed.is_enabled, changed.checked_version) == (False, None)
    with pytest.raises(NotDryRun):
        enable_rule(row.id, **WHY)
    assert enable_rule(row.id, override=True, **WHY).is_enabled
    said = Audit.objects.filter(action="rule.enabled").latest("id")
    assert (said.note, said.details["without_dry_run"]) == ("test", True)


def test_a_rule_is_saved_only_as_it_was_read(db: None) -> None:
    row = rule("once", {}, "reject", is_on=False)
    with pytest.raises(PreconditionFailed):
        commands.replace_rule(
            row.id, RuleFields(name="once", match={}, action={"do": "discard"}), principal=SYSTEM, expected_version=2
        )
    with pytest.raises(AlreadyExists):
        rule("once", {}, "reject")
    other = rule("other", {}, "reject", is_on=False)
    with pytest.raises(AlreadyExists):
        commands.replace_rule(other.id, RuleFields(name="once", match={}, action={"do": "reject"}), principal=SYSTEM)
    with pytest.raises(InvalidRule, match=r"match\.violates: .*leads out"):
        rule("bad", {"violates": {"$ref": "http://example.com/"}}, "reject")
    with pytest.raises(InvalidRule, match="name"):
        rule("  ", {}, "reject")
    said = [json.dumps(row.details) for row in Audit.objects.filter(object_type="rule")]
    assert len(said) == 2, "what was refused is not in the log"


def test_who_is_limited_to_some_addresses_rules_over_no_others(db: None) -> None:
    limited = principal("pat", Role.ADMIN, ["orders.#"])
    everywhere = rule("everywhere", {}, "reject", is_on=False)
    own = commands.create_rule(
        "before", RuleFields(name="own", match={"address": "orders.*"}, action={"do": "reject"}), principal=limited
    )
    assert own.owner == "pat"
    assert [row.name for row in list_rules(principal=limited)] == ["own"]
    with pytest.raises(NotFound):
        get_rule(everywhere.id, principal=limited)
    with pytest.raises(NotFound):
        disable_rule(everywhere.id, principal=limited, reason="x")
    with pytest.raises(NotAllowed):
        commands.create_rule("before", RuleFields(name="all", match={}, action={"do": "reject"}), principal=limited)
    leads_out = RuleFields(name="out", match={"address": "orders.*"}, action={"do": "redirect", "address": "elsewhere"})
    with pytest.raises(NotFound):
        commands.create_rule("before", leads_out, principal=limited)
    with pytest.raises(NotAllowed):
        commands.move_rule(own.id, 1, principal=limited)
    with pytest.raises(NotAllowed):
        enable_rule(own.id, principal=principal("vi", Role.OPERATOR), reason="x")
