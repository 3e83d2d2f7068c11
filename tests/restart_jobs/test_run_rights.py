"""A run has the rights that the owner of its job has at that time, and may need another person's consent."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from poisonadmin.core.commands.authentication import authenticate, principal_of_user
from poisonadmin.core.domain.access import SYSTEM, Permission, Role
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.restart_jobs.commands import run_once
from poisonadmin.decisions.sign_offs.commands import AnotherPersonNeeded, save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.store.models.access import Access, ApiToken
from poisonadmin.store.models.operation import Selection
from poisonadmin.store.models.restart_job import RestartJob
from poisonadmin.system.commands.accounts import create_token, revoke_token
from tests.fixtures.delivery import states
from tests.fixtures.pages import make_user
from tests.restart_jobs.saved import deliver, make_due, run_all, save, undecided

pytestmark = pytest.mark.django_db


def owned(**access: Any) -> RestartJob:
    """Return a job whose owner has had the given access since."""
    user = make_user("pat", Role.ADMIN)
    who = principal_of_user(user)
    assert who is not None
    job = save(principal=who)
    Access.objects.filter(user=user).update(**access)
    return job


def test_a_run_above_the_limit_of_a_sign_off_rule_waits_for_another_person_than_the_owner(destination: str) -> None:
    ids = undecided(3)
    save_sign_off_rule("orders.#", None, above=2, principal=SYSTEM)
    owned()
    [run] = run_all()
    operation = get_operation(run.operation_id or 0, principal=SYSTEM)
    assert (run.outcome, operation.state, states(ids)) == ("begun", "waiting_for_sign_off", ["NDLV"] * 3)
    arguments: dict[str, Any] = {"selection_hash": operation.hash, "reason": "seen"}
    owner = principal_of_user(User.objects.get(username="pat"))
    assert owner is not None
    with pytest.raises(AnotherPersonNeeded):
        sign_off(operation.id, SignOffDecision.CONSENT, principal=owner, **arguments)
    sign_off(operation.id, SignOffDecision.CONSENT, principal=SYSTEM, **arguments)
    assert states(ids) == ["TBDL"] * 3


@pytest.mark.parametrize(
    ("access", "why"),
    [
        ({"role": Role.OPERATOR}, "This needs the permission configure, which pat does not have."),
        ({"address_patterns": ["orders.#"]}, "A restart job may decide on any address, and pat is limited to some."),
    ],
)
def test_a_run_is_refused_when_its_owner_has_fewer_rights_than_when_it_was_saved(
    destination: str, access: dict[str, Any], why: str
) -> None:
    ids = undecided(2)
    job = owned(**access)
    [run] = run_all()
    assert run.outcome == "refused"
    assert run.detail is not None
    assert run.detail.startswith(why)
    assert "save the restart job again" in run.detail
    assert states(ids) == ["NDLV", "NDLV"]
    assert not Selection.objects.exists()
    assert run_once(job.id, principal=SYSTEM).outcome == "refused", "whoever asks: a run has the owner's rights"
    save()
    assert [one.outcome for one in run_all()] == ["begun"]


def test_a_run_is_refused_when_the_account_of_its_owner_is_closed(destination: str) -> None:
    undecided()
    owned()
    assert [run.outcome for run in run_all()] == ["begun"]
    deliver()
    undecided()
    User.objects.filter(username="pat").update(is_active=False)
    make_due()
    [run] = run_all()
    assert (run.outcome, run.detail and "owner, pat, is not in force" in run.detail) == ("refused", True)


def test_a_job_that_a_token_has_saved_runs_while_the_token_is_in_force(destination: str) -> None:
    made = create_token(make_user("pat", Role.ADMIN), "deploy", scopes=list(Permission), by="test")
    found = authenticate(made.text)
    assert found is not None
    undecided()
    save(principal=found[1])
    assert [run.outcome for run in run_all()] == ["begun"]
    deliver()
    undecided()
    revoke_token(ApiToken.objects.get().id, by="test")
    make_due()
    [run] = run_all()
    assert (run.outcome, run.detail and "pat via deploy" in run.detail) == ("refused", True)
