"""SEMANTICS SAP-2 to SAP-14, vectors SAP-a to SAP-m, ruling R2: through the API, Celery, Spark and a sandbox.

Each vector is run under both ways to blame. *Crash* means the sandbox's death, and in SAP-k the loss of the node. The
plain rule, `all_in_flight`, passes every vector but SAP-k, where it flags B; the default, `exact`, every one but SAP-g,
where B ends DLVD. What the other rule gives instead is asserted too.
"""

import psutil
import pytest

from tests.conformance.gate import SECONDS, Gate
from tests.whole_system.installation import Installation, until

EXACT, PLAIN = "exact", "all_in_flight"
both_rules = pytest.mark.parametrize("blame", [EXACT, PLAIN])
SPARK_JOB = ("redeliver", "spark-redelivery", "succeeded")

ENQUEUED, CLAIMED, CRASHED = ("enqueued", "TBDL"), ("claimed", "DLNG"), ("crashed", "TBDL")
BLACKLISTED = ("crashed", "NDLV")


def opened(installation: Installation, vector: str, blame: str, **settings: object) -> Gate:
    """Return a gate of the vector's own."""
    return Gate.open(installation, f"sap-{vector}-{blame}", blame=blame, **settings)


def blacklisted(gate: Gate) -> int:
    """Return a message that has come through SAP-d."""
    message = gate.send()
    gate.crash(message, 1)
    gate.crash(message, 2)
    gate.until(message, "NDLV", "crashed")
    return message


@pytest.mark.conformance("SAP-a", "SAP-6")
@both_rules
def test_sap_a_a_message_that_is_handled_is_delivered_and_no_candidate(installation: Installation, blame: str) -> None:
    gate = opened(installation, "a", blame)
    message = gate.send()
    gate.until_begun(message, 1)
    assert gate.suspicion(message).state == "DLNG"
    gate.deliver(message, 1)
    after = gate.until(message, "DLVD", "delivered")
    assert (after.candidate, after.crash_count) == (False, 0)
    assert gate.steps(message) == [ENQUEUED, CLAIMED, ("delivered", "DLVD")]
    assert gate.jobs(message) == [SPARK_JOB]


@pytest.mark.conformance("SAP-b", "SAP-7")
@both_rules
def test_sap_b_a_crash_returns_the_message_as_a_candidate(installation: Installation, blame: str) -> None:
    gate = opened(installation, "b", blame)
    message = gate.send()
    gate.until_begun(message, 1)
    gate.hold()
    gate.crash(message, 1)
    after = gate.until(message, "TBDL", "crashed")
    assert (after.candidate, after.crash_count, after.failure_count) == (True, 1, 0)
    assert gate.outcomes(message) == ["crashed"]
    assert gate.jobs(message) == [SPARK_JOB]
    gate.shop.decide(message, "quarantine")


@pytest.mark.conformance("SAP-c")
@both_rules
def test_sap_c_a_candidate_that_is_handled_is_delivered(installation: Installation, blame: str) -> None:
    gate = opened(installation, "c", blame)
    message = gate.send()
    gate.crash(message, 1)
    gate.deliver(message, 2)
    after = gate.until(message, "DLVD", "delivered")
    assert (after.candidate, after.crash_count) == (False, 0)
    assert gate.jobs(message) == [SPARK_JOB, SPARK_JOB]


@pytest.mark.conformance("SAP-d", "SAP-4", "SAP-9", "SAP-10")
@both_rules
def test_sap_d_a_second_crash_blacklists_and_nothing_brings_the_message_back(
    installation: Installation, blame: str
) -> None:
    gate = opened(installation, "d", blame)
    message = blacklisted(gate)
    other = gate.send()
    gate.deliver(other, 1)
    gate.until(other, "DLVD", "delivered")
    after = gate.suspicion(message)
    assert (after.state, after.reason, after.candidate, after.crash_count) == ("NDLV", "blacklisted", True, 2)
    assert gate.steps(message) == [ENQUEUED, CLAIMED, CRASHED, CLAIMED, BLACKLISTED]
    assert gate.jobs(message) == [SPARK_JOB, SPARK_JOB]
    gate.shop.decide(message, "fail")


@pytest.mark.conformance("SAP-e", "SAP-10", "R3")
@both_rules
@pytest.mark.parametrize("clears", [False, True], ids=["keeps-the-flag", "clears-the-flag"])
def test_sap_e_an_administrator_allows_it_and_the_setting_says_how_many_crashes_it_has_left(
    installation: Installation, blame: str, clears: bool
) -> None:
    gate = opened(installation, f"e-{clears}", blame, approve_clears_candidate=clears)
    message = blacklisted(gate)
    gate.hold()
    gate.shop.decide(message, "approve")
    after = gate.until(message, "TBDL", "approved")
    assert after.candidate is not clears
    ((actor, note),) = installation.rows(
        "SELECT actor, note FROM history WHERE message_id = %s AND event = 'approved'", [message]
    )
    assert (bool(actor), note) == (True, "a test")
    decided = installation.rows(
        "SELECT action, note FROM audit WHERE object_type = 'message' AND object_id = %s", [str(message)]
    )
    assert decided == [("message.approved", "a test")]
    gate.release()
    gate.crash(message, 3)
    if clears:
        gate.crash(message, 4)
    after = gate.until(message, "NDLV", "crashed")
    assert (after.reason, after.attempt_number) == ("blacklisted", 4 if clears else 3)


@pytest.mark.conformance("SAP-f", "SAP-10")
@both_rules
def test_sap_f_a_message_given_up_is_never_changed_by_itself(installation: Installation, blame: str) -> None:
    gate = opened(installation, "f", blame)
    message = blacklisted(gate)
    gate.shop.decide(message, "fail")
    steps = gate.steps(message)
    assert steps[-1] == ("marked_fail", "FAIL")
    other = gate.send()
    gate.deliver(other, 1)
    gate.until(other, "DLVD", "delivered")
    assert gate.steps(message) == steps
    refused = installation.ask("POST", f"messages/{message}/approve/", {"reason": "too late"})
    assert (refused.status, refused.json["code"]) == (409, "transition_not_allowed")


@pytest.mark.conformance("SAP-g", "SAP-8", "SAP-9", "R2")
@both_rules
def test_sap_g_of_two_in_delivery_at_both_crashes_the_plain_rule_blacklists_both_and_exact_only_the_guilty(
    installation: Installation, blame: str
) -> None:
    gate = opened(installation, "g", blame)
    guilty, bystander = gate.send_together(2)
    gate.until_begun(bystander, 1)
    gate.until_begun(guilty, 1)
    gate.hold()
    gate.crash(guilty, 1)
    assert gate.until(guilty, "TBDL", "crashed").candidate
    if blame == PLAIN:
        assert gate.until(bystander, "TBDL", "crashed").candidate
        gate.release()
        gate.until_begun(bystander, 2)
        gate.crash(guilty, 2)
        assert gate.until(guilty, "NDLV", "crashed").reason == "blacklisted"
        assert gate.until(bystander, "NDLV", "crashed").reason == "blacklisted"
        assert gate.outcomes(bystander) == ["suspected", "suspected"]
    else:
        gate.release()
        gate.until_begun(guilty, 2)
        assert gate.suspicion(bystander).state == "DLNG"
        gate.crash(guilty, 2)
        assert gate.until(guilty, "NDLV", "crashed").reason == "blacklisted"
        gate.deliver(bystander, 1)
        after = gate.until(bystander, "DLVD", "delivered")
        assert (after.candidate, after.crash_count, after.attempt_number) == (False, 0, 1)
        assert gate.outcomes(bystander) == ["delivered"]
    assert gate.jobs(guilty) == [SPARK_JOB, SPARK_JOB]


@pytest.mark.conformance("SAP-h")
@both_rules
def test_sap_h_of_two_candidates_the_one_that_finishes_before_the_second_crash_is_delivered(
    installation: Installation, blame: str
) -> None:
    gate = opened(installation, "h", blame)
    first, second = gate.send_together(2)
    gate.until_begun(first, 1)
    gate.until_begun(second, 1)
    gate.crash(first, 1)
    if blame == EXACT:  # the crash of one accuses nobody else: both are flagged when both crash
        gate.crash(second, 1)
    gate.until_passed(first, [ENQUEUED, CLAIMED, CRASHED, CLAIMED])
    gate.until_passed(second, [ENQUEUED, CLAIMED, CRASHED])
    if blame == EXACT:  # candidates are tried one after the other, in the order in which they are due
        until(lambda: gate.has_begun(first, 2) or gate.has_begun(second, 2), SECONDS)
        turn = [first, second] if gate.has_begun(first, 2) else [second, first]
    else:
        turn = [second, first]
        gate.until_begun(first, 2)
    assert gate.suspicion(second).candidate
    for message in turn:
        gate.end(message, 2, "ok" if message == second else "kill SIGKILL")
        gate.until(message, *(("DLVD", "delivered") if message == second else ("NDLV", "crashed")))
    assert gate.suspicion(first).reason == "blacklisted"
    assert (gate.suspicion(second).state, gate.suspicion(second).candidate) == ("DLVD", False)


@pytest.mark.conformance("SAP-i")
@both_rules
def test_sap_i_an_exception_accuses_nobody(installation: Installation, blame: str) -> None:
    gate = opened(installation, "i", blame)
    message = gate.send()
    gate.end(message, 1, "reject")
    gate.until_begun(message, 2)
    after = gate.suspicion(message)
    assert (after.candidate, after.crash_count, after.failure_count) == (False, 0, 1)
    gate.deliver(message, 2)
    assert gate.until(message, "DLVD", "delivered").failure_count == 0
    assert gate.jobs(message) == [SPARK_JOB, SPARK_JOB]


@pytest.mark.conformance("SAP-j", "SAP-11")
@both_rules
def test_sap_j_with_blacklisting_off_every_crash_only_returns_the_message_and_it_is_switched_while_running(
    installation: Installation, blame: str
) -> None:
    gate = opened(installation, "j", blame, blacklisting_enabled=False)
    message = gate.send()
    for attempt in (1, 2, 3, 4):
        gate.crash(message, attempt)
        gate.until_begun(message, attempt + 1)
        assert not gate.suspicion(message).candidate
    assert gate.steps(message) == [ENQUEUED, *[CLAIMED, CRASHED] * 4, CLAIMED]
    gate.shop.configure(preset="sap", blame=blame)  # the default of SAP-11 again, while attempt 5 is under way
    gate.crash(message, 5)
    gate.until_begun(message, 6)
    assert (gate.suspicion(message).candidate, gate.suspicion(message).crash_count) == (True, 1)
    gate.crash(message, 6)
    assert gate.until(message, "NDLV", "crashed").reason == "blacklisted"


@pytest.mark.conformance("SAP-k", "SAP-2", "ART-16", "R2", "R3")
@both_rules
def test_sap_k_of_a_lost_node_what_had_begun_is_a_candidate_and_what_was_only_claimed_is_not_unless_by_the_plain_rule(
    installation: Installation, blame: str
) -> None:
    gate = opened(installation, "k", blame, concurrency=1)
    begun, claimed = gate.send_together(2)
    gate.until_begun(begun, 1)
    assert gate.suspicion(claimed).state == "DLNG"
    assert not gate.has_begun(claimed, 1)
    gate.hold()
    gate.kill_node_of(begun)
    accused = gate.until(begun, "TBDL", "node_lost")
    other = gate.until(claimed, "TBDL", "released" if blame == EXACT else "node_lost")
    assert accused.candidate
    assert other.candidate is (blame == PLAIN)
    assert accused.crash_count == other.crash_count == (1 if blame == PLAIN else 0)
    gate.release()
    gate.deliver(begun, 2)
    gate.deliver(claimed, 2)
    for message in (begun, claimed):
        after = gate.until(message, "DLVD", "delivered")
        assert (after.candidate, after.crash_count) == (False, 0)


@pytest.mark.conformance("SAP-l", "R2")
@both_rules
def test_sap_l_an_exception_between_two_crashes_changes_nothing(installation: Installation, blame: str) -> None:
    gate = opened(installation, "l", blame)
    message = gate.send()
    gate.crash(message, 1)
    gate.end(message, 2, "reject")
    gate.crash(message, 3)
    after = gate.until(message, "NDLV", "crashed")
    assert (after.reason, after.crash_count, after.failure_count) == ("blacklisted", 2, 1)
    assert gate.outcomes(message) == ["crashed", "failed", "crashed"]
    assert gate.jobs(message) == [SPARK_JOB] * 3


@pytest.mark.conformance("SAP-m", "R2")
def test_sap_m_a_node_that_is_stopped_cleanly_accuses_nobody_under_either_rule(installation: Installation) -> None:
    gates = [opened(installation, "m", blame, concurrency=1) for blame in (EXACT, PLAIN)]
    pairs = [gate.send_together(2) for gate in gates]
    for gate, (begun, claimed) in zip(gates, pairs, strict=True):
        gate.until_begun(begun, 1)
        assert gate.suspicion(claimed).state == "DLNG"
        gate.hold()
    former = installation.pid_of("spark-redelivery")
    psutil.Process(former).terminate()
    for gate, (begun, claimed) in zip(gates, pairs, strict=True):
        for message, event in ((begun, "outcome_lost"), (claimed, "released")):
            after = gate.until(message, "TBDL", event)
            assert (after.candidate, after.crash_count, after.failure_count) == (False, 0, 0)
    until(lambda: installation.pid_of("spark-redelivery") != former, SECONDS)
    installation.until_ready()
    for gate, messages in zip(gates, pairs, strict=True):
        for message in messages:
            gate.deliver(message, 2)
        gate.release()
        for message in messages:
            assert gate.until(message, "DLVD", "delivered").candidate is False
