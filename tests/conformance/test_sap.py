"""Conformance SAP-2 to SAP-14, vectors SAP-a to SAP-r, R2, R14: through the API, the redelivery and a sandbox.

Each vector is run under both ways to blame. *Crash* means the sandbox's death, and in SAP-g, SAP-k and SAP-r the loss
of the node. Both rules pass every vector, but the default, `exact`, where B ends DLVD in SAP-g.
"""

import time

import pytest

from tests.conformance.clean_stop import check_clean_stop
from tests.conformance.controlled_handler import EXACT, PLAIN, SECONDS, ControlledHandler, Suspicion
from tests.conformance.local_redelivery import JOB, LocalRedelivery
from tests.whole_system.installation import until

both_rules = pytest.mark.parametrize("blame", [EXACT, PLAIN])

ENQUEUED, CLAIMED, CRASHED = ("enqueued", "TBDL"), ("claimed", "DLNG"), ("crashed", "TBDL")
BLACKLISTED, RELEASED = ("crashed", "NDLV"), ("released", "TBDL")
SLOW_SECONDS = 5.0


def opened(redelivery: LocalRedelivery, vector: str, blame: str, **settings: object) -> ControlledHandler:
    """Return a handler of the vector's own."""
    return ControlledHandler.create(redelivery, f"sap-{vector}-{blame}", blame=blame, **settings)


def blacklisted(handler: ControlledHandler) -> int:
    """Return a message that has come through SAP-d."""
    message = handler.send()
    handler.crash(message, 1)
    handler.crash(message, 2)
    handler.until(message, "NDLV", "crashed")
    return message


@pytest.mark.conformance("SAP-a", "SAP-6")
@both_rules
def test_sap_a_a_message_that_is_handled_is_delivered_and_no_candidate(redelivery: LocalRedelivery, blame: str) -> None:
    handler = opened(redelivery, "a", blame)
    message = handler.send()
    handler.until_begun(message, 1)
    assert handler.suspicion(message).state == "DLNG"
    handler.deliver(message, 1)
    after = handler.until(message, "DLVD", "delivered")
    assert (after.candidate, after.crash_count) == (False, 0)
    assert handler.steps(message) == [ENQUEUED, CLAIMED, ("delivered", "DLVD")]
    assert handler.jobs(message) == [JOB]


@pytest.mark.conformance("SAP-b", "SAP-7", by="crash")
@both_rules
def test_sap_b_a_crash_returns_the_message_as_a_candidate(redelivery: LocalRedelivery, blame: str) -> None:
    handler = opened(redelivery, "b", blame)
    message = handler.send()
    handler.until_begun(message, 1)
    handler.hold()
    handler.crash(message, 1)
    after = handler.until(message, "TBDL", "crashed")
    assert (after.candidate, after.crash_count, after.failure_count) == (True, 1, 0)
    assert handler.outcomes(message) == ["crashed"]
    assert handler.jobs(message) == [JOB]
    handler.destination.decide(message, "quarantine")


@pytest.mark.conformance("SAP-c", by="crash")
@both_rules
def test_sap_c_a_candidate_that_is_handled_is_delivered(redelivery: LocalRedelivery, blame: str) -> None:
    handler = opened(redelivery, "c", blame)
    message = handler.send()
    handler.crash(message, 1)
    handler.deliver(message, 2)
    after = handler.until(message, "DLVD", "delivered")
    assert (after.candidate, after.crash_count) == (False, 0)
    assert handler.jobs(message) == [JOB, JOB]


@pytest.mark.conformance("SAP-d", "SAP-4", "SAP-9", "SAP-10", by="crash")
@both_rules
def test_sap_d_a_second_crash_blacklists_and_nothing_brings_the_message_back(
    redelivery: LocalRedelivery, blame: str
) -> None:
    handler = opened(redelivery, "d", blame)
    message = blacklisted(handler)
    other = handler.send()
    handler.deliver(other, 1)
    handler.until(other, "DLVD", "delivered")
    after = handler.suspicion(message)
    assert (after.state, after.reason, after.candidate, after.crash_count) == ("NDLV", "blacklisted", True, 2)
    assert handler.steps(message) == [ENQUEUED, CLAIMED, CRASHED, CLAIMED, BLACKLISTED]
    assert handler.jobs(message) == [JOB, JOB]
    handler.destination.decide(message, "fail")


@pytest.mark.conformance("SAP-e", "SAP-10", "R3", by="crash")
@both_rules
@pytest.mark.parametrize("clears", [False, True], ids=["keeps-the-flag", "clears-the-flag"])
def test_sap_e_an_administrator_allows_it_and_the_setting_says_how_many_crashes_it_has_left(
    redelivery: LocalRedelivery, blame: str, clears: bool
) -> None:
    handler = opened(redelivery, f"e-{clears}", blame, approve_clears_candidate=clears)
    message = blacklisted(handler)
    handler.hold()
    handler.destination.decide(message, "approve")
    after = handler.until(message, "TBDL", "approved")
    assert after.candidate is not clears
    ((actor, note),) = redelivery.rows(
        "SELECT actor, note FROM history WHERE message_id = %s AND event = 'approved'", [message]
    )
    assert (bool(actor), note) == (True, "a test")
    decided = redelivery.rows(
        "SELECT action, note FROM audit WHERE object_type = 'message' AND object_id = %s", [str(message)]
    )
    assert decided == [("message.approved", "a test")]
    handler.release()
    handler.crash(message, 3)
    if clears:
        handler.crash(message, 4)
    after = handler.until(message, "NDLV", "crashed")
    assert (after.reason, after.attempt_number) == ("blacklisted", 4 if clears else 3)


@pytest.mark.conformance("SAP-f", "SAP-10", by="crash")
@both_rules
def test_sap_f_a_message_given_up_is_never_changed_by_itself(redelivery: LocalRedelivery, blame: str) -> None:
    handler = opened(redelivery, "f", blame)
    message = blacklisted(handler)
    handler.destination.decide(message, "fail")
    steps = handler.steps(message)
    assert steps[-1] == ("marked_fail", "FAIL")
    other = handler.send()
    handler.deliver(other, 1)
    handler.until(other, "DLVD", "delivered")
    assert handler.steps(message) == steps
    refused = redelivery.ask("POST", f"messages/{message}/approve/", {"reason": "too late"})
    assert (refused.status, refused.json["code"]) == (409, "transition_not_allowed")


@pytest.mark.conformance("SAP-g", "SAP-8", "SAP-9", "R2", by="lost process")
@both_rules
def test_sap_g_of_two_begun_at_both_losses_the_plain_rule_blacklists_both_and_exact_only_the_guilty(
    redelivery: LocalRedelivery, blame: str
) -> None:
    handler = opened(redelivery, "g", blame)
    guilty, bystander = handler.send_together(2)
    handler.until_begun(bystander, 1)
    handler.until_begun(guilty, 1)
    if blame == EXACT:  # whichever is tried first, alone
        for attempt in (2, 3, 4):
            handler.deliver(bystander, attempt)
    handler.kill_node_of(guilty)
    if blame == PLAIN:
        handler.until_begun(bystander, 2)
        handler.until_begun(guilty, 2)
        handler.kill_node_of(guilty)
        for message in (guilty, bystander):
            assert handler.until(message, "NDLV", "node_lost").reason == "blacklisted"
            assert handler.outcomes(message) == ["node_lost", "node_lost"]
    else:
        attempt = 1
        for _ in range(2):
            attempt = handler.until_in_turn(guilty, after=attempt)
            handler.kill_node_of(guilty)
        assert handler.until(guilty, "NDLV", "node_lost").reason == "blacklisted"
        after = handler.until(bystander, "DLVD", "delivered")
        assert (after.candidate, after.crash_count) == (False, 0)
        assert handler.outcomes(bystander) == ["node_lost", "delivered"]


@pytest.mark.conformance("SAP-q", "R2", by="crash")
@both_rules
def test_sap_q_a_sandbox_that_dies_twice_accuses_its_message_and_nothing_that_works_beside_it(
    redelivery: LocalRedelivery, blame: str
) -> None:
    handler = opened(redelivery, "q", blame)
    guilty, bystander = handler.send_together(2)
    handler.until_begun(bystander, 1)
    handler.until_begun(guilty, 1)
    handler.crash(guilty, 1)
    handler.until_passed(guilty, [ENQUEUED, CLAIMED, CRASHED])
    handler.crash(guilty, 2)
    if blame == EXACT:  # a candidate is tried alone
        assert not handler.has_begun(guilty, 2)
    else:
        assert handler.until(guilty, "NDLV", "crashed").reason == "blacklisted"
    assert handler.suspicion(bystander) == Suspicion("DLNG", None, False, 0, 0, 1)
    handler.deliver(bystander, 1)
    handler.until(bystander, "DLVD", "delivered")
    assert handler.until(guilty, "NDLV", "crashed").reason == "blacklisted"
    assert handler.steps(bystander) == [ENQUEUED, CLAIMED, ("delivered", "DLVD")]
    assert handler.outcomes(bystander) == ["delivered"]


@pytest.mark.conformance("SAP-h", by="crash")
@both_rules
def test_sap_h_of_two_candidates_the_one_that_finishes_before_the_second_crash_is_delivered(
    redelivery: LocalRedelivery, blame: str
) -> None:
    handler = opened(redelivery, "h", blame)
    first, second = handler.send_together(2)
    for message in (first, second):
        handler.crash(message, 1)
    for attempt in (2, 3):
        handler.deliver(second, attempt)
    if blame == EXACT:  # whichever is tried first, alone
        handler.crash(first, 2)
        handler.crash(first, 3)
    assert handler.until(second, "DLVD", "delivered").candidate is False
    if blame == PLAIN:
        handler.crash(first, 2)
    assert handler.until(first, "NDLV", "crashed").reason == "blacklisted"
    for message in (first, second):
        assert handler.steps(message)[:3] == [ENQUEUED, CLAIMED, CRASHED], "it was a candidate"


@pytest.mark.conformance("SAP-i", by="exception")
@both_rules
def test_sap_i_an_exception_accuses_nobody(redelivery: LocalRedelivery, blame: str) -> None:
    handler = opened(redelivery, "i", blame)
    message = handler.send()
    handler.end(message, 1, "reject")
    handler.until_begun(message, 2)
    after = handler.suspicion(message)
    assert (after.candidate, after.crash_count, after.failure_count) == (False, 0, 1)
    handler.deliver(message, 2)
    assert handler.until(message, "DLVD", "delivered").failure_count == 0
    assert handler.jobs(message) == [JOB, JOB]


@pytest.mark.conformance("SAP-j", "SAP-11", by="crash")
@both_rules
def test_sap_j_with_blacklisting_off_every_crash_only_returns_the_message_and_it_is_switched_while_running(
    redelivery: LocalRedelivery, blame: str
) -> None:
    handler = opened(redelivery, "j", blame, blacklisting_enabled=False)
    message = handler.send()
    for attempt in (1, 2, 3, 4):
        handler.crash(message, attempt)
        handler.until_begun(message, attempt + 1)
        assert not handler.suspicion(message).candidate
    assert handler.steps(message) == [ENQUEUED, *[CLAIMED, CRASHED] * 4, CLAIMED]
    handler.destination.configure(
        preset="sap", blame=blame
    )  # the default of SAP-11 again, while attempt 5 is under way
    handler.crash(message, 5)
    handler.until_begun(message, 6)
    assert (handler.suspicion(message).candidate, handler.suspicion(message).crash_count) == (True, 1)
    handler.crash(message, 6)
    assert handler.until(message, "NDLV", "crashed").reason == "blacklisted"


@pytest.mark.conformance("SAP-k", "SAP-2", "ART-16", "R2", "R3", by="lost process")
@both_rules
def test_sap_k_of_a_lost_node_what_had_begun_is_a_candidate_and_what_was_only_claimed_is_not(
    redelivery: LocalRedelivery, blame: str
) -> None:
    handler = opened(redelivery, "k", blame, concurrency=1)
    begun, claimed = handler.send_together(2)
    handler.until_begun(begun, 1)
    assert not handler.has_begun(claimed, 1)
    handler.deliver(claimed, 2)
    handler.kill_node_of(begun)
    attempt = handler.until_in_turn(begun, after=1)
    accused = handler.suspicion(begun)
    assert (accused.candidate, accused.crash_count) == (True, 1 if blame == PLAIN else 0)
    handler.deliver(begun, attempt)
    for message in (begun, claimed):
        after = handler.until(message, "DLVD", "delivered")
        assert (after.candidate, after.crash_count) == (False, 0)
    assert handler.outcomes(begun) == ["node_lost", "delivered"]
    assert handler.steps(claimed) == [ENQUEUED, CLAIMED, RELEASED, CLAIMED, ("delivered", "DLVD")]


@pytest.mark.conformance("SAP-r", "R14", "R2", by="lost process")
@both_rules
def test_sap_r_slow_handlers_never_have_more_sandboxes_than_their_concurrency_and_a_loss_accuses_what_had_begun(
    redelivery: LocalRedelivery, blame: str
) -> None:
    handler = opened(redelivery, "r", blame)
    messages = handler.send_together(9)
    until(lambda: len(handler.begun()) == 2, SECONDS)
    for _ in range(6):  # the world goes on, for longer than a task begins deliveries
        messages.append(handler.send())
        time.sleep(SLOW_SECONDS / 6)
        assert len(handler.begun()) == 2, "no more than two at once, however long they take"
    accused = {message for message, _ in handler.begun()}
    for message in messages:
        for attempt in range(2 if message in accused else 1, 9):
            handler.deliver(message, attempt)
    handler.kill_node_of(min(accused))
    for message in messages:
        handler.until(message, "DLVD", "delivered")
    lost = {message for message in messages if "node_lost" in handler.outcomes(message)}
    assert lost <= accused
    assert lost, "its node was killed"
    assert {message for message in messages if handler.outcomes(message) != ["delivered"]} <= accused


@pytest.mark.conformance("SAP-l", "R2", by="crash, exception")
@both_rules
def test_sap_l_an_exception_between_two_crashes_changes_nothing(redelivery: LocalRedelivery, blame: str) -> None:
    handler = opened(redelivery, "l", blame)
    message = handler.send()
    handler.crash(message, 1)
    handler.end(message, 2, "reject")
    handler.crash(message, 3)
    after = handler.until(message, "NDLV", "crashed")
    assert (after.reason, after.crash_count, after.failure_count) == ("blacklisted", 2, 1)
    assert handler.outcomes(message) == ["crashed", "failed", "crashed"]
    assert handler.jobs(message) == [JOB] * 3


@pytest.mark.conformance("SAP-m", "R2", by="clean stop")
def test_sap_m_a_node_that_is_stopped_cleanly_accuses_nobody_under_either_rule(redelivery: LocalRedelivery) -> None:
    check_clean_stop(redelivery, redelivery.restart)
