"""The versions of a policy, as the audit log has them."""

import pytest

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.policies.commands import delete_policy, save_policy
from poisonadmin.policies.queries import Change, policy_history

pytestmark = pytest.mark.django_db


def save(match: str = "orders.#", preset: str | None = None, **settings: object) -> int:
    """Save a policy and return its id."""
    return save_policy(match, preset=preset, settings=settings, destination=None, principal=SYSTEM).id


def test_each_version_says_who_when_what_was_and_what_is() -> None:
    save(crash_limit=3)
    save("invoices.#", crash_limit=9)
    policy = save(preset="sap", crash_limit=4, ordered=True)
    newest, first = policy_history(policy, principal=SYSTEM)
    assert (newest.version, newest.by, newest.preset, newest.settings) == (
        2,
        "system",
        "sap",
        {"crash_limit": 4, "ordered": True},
    )
    assert newest.changes == [
        Change("preset", None, "sap"),
        Change("crash_limit", 3, 4),
        Change("ordered", None, True),
    ]
    assert first.changes == [Change("crash_limit", None, 3)]
    assert newest.at >= first.at


def test_a_policy_that_was_deleted_and_made_again_has_the_versions_of_both() -> None:
    delete_policy(save(crash_limit=3), principal=SYSTEM)
    policy = save(crash_limit=3)
    found = policy_history(policy, principal=SYSTEM)
    assert [(version.is_deleted, version.changes) for version in found] == [
        (False, [Change("crash_limit", None, 3)]),
        (True, [Change("crash_limit", 3, None)]),
        (False, [Change("crash_limit", None, 3)]),
    ]


def test_a_field_set_to_nothing_is_not_one_that_is_not_set() -> None:
    save(max_redelivery_delay=None)
    policy = save()
    assert policy_history(policy, principal=SYSTEM)[0].changes == [Change("max_redelivery_delay", None, None)]


def test_a_policy_out_of_scope_has_no_history() -> None:
    with pytest.raises(NotFound):
        policy_history(save(), principal=principal("o", Role.ADMIN, ["elsewhere.#"]))
