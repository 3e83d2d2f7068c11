"""An operation waits until a version of its consumer is seen alive; what fails again on it halts the operation."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM, OutOfScope, Role, principal
from poisonadmin.decisions.operations.commands.awaited_versions import begin_awaited
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import OperationNotChanged, carry_on, change
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.awaited_version import BeginWhen
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.params import InvalidOperation
from poisonadmin.decisions.operations.queries.operations import get_operation
from poisonadmin.decisions.sign_offs.commands import expire_sign_offs, save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.deployments.commands import report_deployment
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.queries.groups import get_group
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.poison_list.commands import Heartbeat, record_heartbeat
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.deployment import SeenVersion
from poisonadmin.store.models.message import Message
from poisonadmin.store.models.operation import Operation
from tests.fixtures.api import caller_of
from tests.fixtures.delivery import make_destination
from tests.fixtures.pages import log_in
from tests.operations.follow import answer_claim, approve_all, ledger, state

pytestmark = pytest.mark.django_db
AWAITED = BeginWhen("shop", "2.5.0")


@pytest.fixture(autouse=True)
def shop(db: None) -> None:
    """Let `orders.#` deliver to `shop`, each message once after an approval."""
    make_destination(max_delivery_attempts=1)


def failed(n: int) -> list[int]:
    """Return messages that have failed once, all of one group, and are undecided."""
    ids = [
        accept(parse_envelope({"address": "orders.eu", "payload": "x"}), principal=SYSTEM, received_by="t").id
        for _ in range(n)
    ]
    answer_claim("failed", consumer_version="2.4.0")
    return ids


def approve_when_mended(awaited: BeginWhen = AWAITED, **more: Any) -> int:
    """Begin to approve all that is undecided when the version is seen."""
    return approve_all(terms=OperationTerms(begin_when=awaited), **more)


def tick() -> None:
    """Do what the tick of operations does."""
    expire_sign_offs()
    begin_awaited()
    carry_on()


def is_regressed(message_id: int) -> str | None:
    """Return the version on which the group of a message has regressed."""
    group = Message.objects.get(id=message_id).group_id
    assert group is not None
    return get_group(group, principal=SYSTEM).regressed_version


def test_a_version_never_seen_begins_nothing() -> None:
    ids = failed(3)
    operation = approve_when_mended()
    for version in ("2.4.9", "2.5.0-rc.1", "9f3c2ab", "latest"):
        report_deployment("shop", version, principal=SYSTEM)
        record_heartbeat(Heartbeat("billing-1", "orders.eu", version), principal=SYSTEM)
        tick()
    report_deployment("elsewhere", "3.0", principal=SYSTEM)
    report_deployment("shop", "2.6", principal=SYSTEM, at=timezone.now() - timedelta(days=2))  # and rolled back since
    tick()
    assert state(operation) == "waiting_for_version"
    assert ledger(operation) == {"unanswered": 3}
    assert set(Message.objects.filter(id__in=ids).values_list("state", flat=True)) == {"NDLV"}


@pytest.mark.parametrize("seen_in", ["deployment", "heartbeat", "answer"])
def test_its_canary_begins_by_itself_once_the_version_is_seen(seen_in: str) -> None:
    failed(30)
    operation = approve_when_mended(BeginWhen("orders.eu" if seen_in == "heartbeat" else "shop", "2.5.0"))
    arrived = failed(1)[0]
    tick()
    assert not Message.objects.filter(state="TBDL").exists()
    if seen_in == "deployment":
        report_deployment("shop", "v2.5", principal=SYSTEM)
    elif seen_in == "heartbeat":
        record_heartbeat(Heartbeat("billing-1", "orders.eu", "2.5.1+build.7"), principal=SYSTEM)
    else:
        SeenVersion.objects.create(seen_in="answer", consumer="shop", version="2.10")
    sizes = []
    for _ in range(3):
        tick()
        sizes.append(len(answer_claim("delivered", consumer_version="2.5.1")))
    tick()
    assert sizes == [1, 10, 19]
    assert (state(operation), ledger(operation)) == ("completed", {"delivered": 30})
    assert Message.objects.get(id=arrived).state == "NDLV", "the selection is frozen"
    assert get_operation(operation, principal=SYSTEM).version_seen["seen_in"] == seen_in  # type: ignore[index]
    assert Audit.objects.filter(action="operation.version_seen", actor="system").count() == 1


def test_what_fails_again_on_the_version_halts_it_and_reopens_the_group() -> None:
    ids = failed(30)
    group = Message.objects.get(id=ids[0]).group_id
    assert group is not None
    annotate(group, {"snoozed_until": timezone.now() + timedelta(days=3)}, principal=SYSTEM)
    operation = approve_when_mended()
    report_deployment("shop", "2.5.0", principal=SYSTEM)
    tick()
    answer_claim("failed", consumer_version="2.5.2")
    tick()
    found = get_operation(operation, principal=SYSTEM)
    assert found.state == "halted"
    assert found.halted_why == "1 failed again as before on 2.5.2; shop 2.5.0 or later was to mend that."
    shown = get_group(group, principal=SYSTEM)
    assert (shown.regressed_version, shown.snoozed_until) == ("2.5.2", None)
    assert Audit.objects.get(action="group.regressed").object_id == str(group)
    approve_when_mended(BeginWhen("shop", "2.6"))
    tick()
    assert is_regressed(ids[0]) == "2.5.2"
    report_deployment("shop", "2.6", principal=SYSTEM)
    tick()
    assert is_regressed(ids[0]) is None, "another version is being tried"


def test_a_late_failure_of_an_older_consumer_counts_for_nothing() -> None:
    ids = failed(30)
    operation = approve_when_mended()
    report_deployment("shop", "2.5.0", principal=SYSTEM)
    tick()
    answer_claim("failed", consumer_version="2.4.9")
    tick()
    assert state(operation) == "running"
    assert (is_regressed(ids[0]), ledger(operation)) == (None, {"failed_same": 1, "unanswered": 29})
    answer_claim("failed", consumer_version="2.4.9", fingerprint="a" * 16)
    tick()
    assert state(operation) == "running"
    for _ in range(2):
        tick()
        if Message.objects.filter(state="TBDL").exists():
            answer_claim("delivered", consumer_version="2.5.0")
    tick()
    assert (state(operation), is_regressed(ids[0])) == ("completed", None)
    assert ledger(operation) == {"failed_same": 1, "failed_new": 10, "delivered": 19}


@pytest.mark.parametrize("version", [None, "9f3c2ab"])
def test_a_failure_of_which_nobody_knows_the_version_counts_as_in_any_canary(version: str | None) -> None:
    ids = failed(5)
    operation = approve_when_mended()
    report_deployment("shop", "2.5.0", principal=SYSTEM)
    tick()
    answer_claim("failed", consumer_version=version)
    tick()
    assert (state(operation), is_regressed(ids[0])) == ("halted", None)


def test_it_can_be_paused_and_cancelled_before_it_has_begun() -> None:
    ids = failed(3)
    operation = approve_when_mended()
    change(operation, OperationChange.PAUSE, reason="", principal=SYSTEM)
    report_deployment("shop", "2.4.0", principal=SYSTEM)
    tick()
    assert state(operation) == "paused"
    change(operation, OperationChange.RESUME, reason="", principal=SYSTEM)
    assert state(operation) == "waiting_for_version", "resuming is no way past the version"
    tick()
    change(operation, OperationChange.CANCEL, reason="", principal=SYSTEM)
    report_deployment("shop", "2.5.0", principal=SYSTEM)
    tick()
    assert (state(operation), ledger(operation)) == ("cancelled", {"cancelled": 3})
    assert set(Message.objects.filter(id__in=ids).values_list("state", flat=True)) == {"NDLV"}
    with pytest.raises(OperationNotChanged):
        change(operation, OperationChange.RESUME, reason="", principal=SYSTEM)


def test_a_sign_off_comes_before_the_version() -> None:
    failed(3)
    save_sign_off_rule("#", None, above=2, principal=SYSTEM)
    operation = begin(
        {"state": ["NDLV"]},
        OperationAction.APPROVE,
        reason="mended",
        principal=principal("olga", Role.OPERATOR),
        terms=OperationTerms(begin_when=AWAITED),
    )
    report_deployment("shop", "2.5.0", principal=SYSTEM)
    tick()
    assert state(operation) == "waiting_for_sign_off"
    found = get_operation(operation, principal=SYSTEM)
    rita = principal("rita", Role.REVIEWER)
    sign_off(operation, SignOffDecision.CONSENT, selection_hash=found.hash, reason="seen", principal=rita)
    assert state(operation) == "waiting_for_version"
    assert not Message.objects.filter(state="TBDL").exists()
    tick()
    assert state(operation) == "running"
    assert Message.objects.filter(state="TBDL").count() == 1


def test_a_sign_off_that_expires_ends_it() -> None:
    failed(3)
    save_sign_off_rule("#", None, above=2, principal=SYSTEM)
    operation = approve_when_mended()
    Operation.objects.update(sign_off_expires_at=timezone.now() - timedelta(hours=1))
    report_deployment("shop", "2.5.0", principal=SYSTEM)
    tick()
    assert state(operation) == "cancelled"


def test_nobody_waits_for_what_is_out_of_scope() -> None:
    failed(1)
    limited = principal("lim", Role.OPERATOR, ["orders.#"])

    def begun(consumer: str) -> int:
        terms = OperationTerms(begin_when=BeginWhen(consumer, "2"))
        return begin({"state": ["NDLV"]}, OperationAction.APPROVE, reason="r", principal=limited, terms=terms)

    with pytest.raises(OutOfScope):
        begun("#")
    assert state(begun("orders.eu")) == "waiting_for_version"


def test_an_action_that_delivers_nothing_waits_for_no_version() -> None:
    failed(1)
    with pytest.raises(InvalidOperation):
        begin(
            {"state": ["NDLV"]},
            OperationAction.FAIL,
            reason="r",
            principal=SYSTEM,
            terms=OperationTerms(begin_when=AWAITED),
        )


@pytest.mark.parametrize(
    "given",
    [
        {"consumer": "shop"},
        {"consumer": 1, "version": "2"},
        {"consumer": "s", "version": " "},
        {"consumer": "s", "version": "2", "at": "x"},
        [],
        "2.5",
    ],
)
def test_the_api_refuses_what_says_no_version(given: object) -> None:
    failed(1)
    body = {"selection": {"filter": {"state": "NDLV"}}, "action": "approve", "reason": "r", "begin_when": given}
    assert caller_of("operator").post("operations/", body).status_code == 400


def test_the_api_begins_one() -> None:
    failed(2)
    caller = caller_of("operator")
    body = {
        "selection": {"filter": {"state": "NDLV"}},
        "action": "approve",
        "reason": "r",
        "begin_when": {"consumer": "shop", "version": "2.5"},
    }
    made = caller.post("operations/", body).json()
    assert (made["state"], made["canary"], made["version_seen"]) == ("waiting_for_version", True, None)
    assert made["begin_when"] == {"consumer": "shop", "version": "2.5"}
    assert [one["id"] for one in caller.get("operations/?state=waiting_for_version").json()["results"]] == [made["id"]]


@pytest.mark.usefixtures("page_settings")
def test_the_page_asks_for_a_version_and_shows_it() -> None:
    failed(2)
    browser = log_in("operator")
    selected = browser.post("/operations/select/", {"query": "state=NDLV"})["Location"]
    form = {"reason": "mended", "begin": "1", "begin_consumer": "shop", "begin_version": ""}
    refused = browser.post(f"{selected}?action=approve", form)
    assert refused.status_code == 422
    assert "1 to 100 printable characters" in refused.content.decode()
    begun = browser.post(f"{selected}?action=approve", form | {"begin_version": "2.5"})
    page = browser.get(begun["Location"]).content.decode()
    assert "Waiting for a version" in page
    assert "shop 2.5 or later" in page
    report_deployment("shop", "2.6", principal=SYSTEM)
    tick()
    answer_claim("failed", consumer_version="2.6")
    tick()
    assert "2.6 was seen in a" in " ".join(browser.get(begun["Location"]).content.decode().split())
    group = Message.objects.filter(state="NDLV").first().group_id  # type: ignore[union-attr]
    assert "regressed on 2.6" in browser.get(f"/groups/{group}/").content.decode()


@pytest.mark.parametrize("waits", ["for its sign-off", "paused"])
def test_a_version_that_was_rolled_back_while_it_waited_begins_nothing(waits: str) -> None:
    failed(3)
    olga, rita = principal("olga", Role.OPERATOR), principal("rita", Role.REVIEWER)
    if waits != "paused":
        save_sign_off_rule("#", None, above=2, principal=SYSTEM)
    terms = OperationTerms(begin_when=AWAITED)
    operation = begin({"state": ["NDLV"]}, OperationAction.APPROVE, reason="mended", principal=olga, terms=terms)
    if waits == "paused":
        change(operation, OperationChange.PAUSE, reason="", principal=SYSTEM)
    now = timezone.now()
    report_deployment("shop", "2.5.0", principal=SYSTEM, at=now - timedelta(seconds=2))
    report_deployment("shop", "2.4.0", principal=SYSTEM, at=now - timedelta(seconds=1))
    Operation.objects.filter(id=operation).update(requested_at=now - timedelta(seconds=9))
    if waits == "paused":
        change(operation, OperationChange.RESUME, reason="", principal=SYSTEM)
    else:
        found = get_operation(operation, principal=SYSTEM)
        sign_off(operation, SignOffDecision.CONSENT, selection_hash=found.hash, reason="seen", principal=rita)
    tick()
    assert state(operation) == "waiting_for_version"
    report_deployment("shop", "2.5.1", principal=SYSTEM)
    tick()
    assert state(operation) == "running"
