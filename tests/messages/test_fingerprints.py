"""Which failures are one failure, and what a group of them is called."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.groups.domain.failures import (
    FINGERPRINT_VERSION,
    MAX_TITLE_CHARS,
    Failure,
    fingerprint,
    from_dead_letter,
    http_status_failure,
    title,
)
from poisonadmin.messages.domain.dead_letter import DeadLetter

STACK = 'Traceback (most recent call last):\n  File "/srv/orders/handler.py", line {line}, in handle\nE: {text}\n'


def test_fingerprints_of_version_2_stay_what_they_are() -> None:
    """Groups are stored under these: when this test has to change, so has FINGERPRINT_VERSION."""
    assert FINGERPRINT_VERSION == 2
    assert fingerprint(Failure("E", "order 7", stack=STACK.format(line=7, text="x"))) == "bfa04d6e8b18e083"
    assert fingerprint(Failure("E", "order 7")) == "c3897d29f02dde86"
    assert fingerprint(http_status_failure(422, "Unprocessable Entity", "")) == "73dd6d48e1ad3563"


def test_with_a_frame_neither_the_message_nor_the_line_counts() -> None:
    one = Failure("E", "no customer", stack=STACK.format(line=7, text="no customer"))
    other = Failure("E", "no total", stack=STACK.format(line=8, text="no total"))
    assert fingerprint(one) == fingerprint(other)


def test_without_a_frame_the_masked_message_counts() -> None:
    assert fingerprint(Failure("E", "order 7 of 'ada'")) == fingerprint(Failure("E", "order 8 of 'bob'"))
    assert fingerprint(Failure("E", "no customer")) != fingerprint(Failure("E", "no total"))


def test_the_cause_counts_and_the_wrapper_does_not() -> None:
    one = Failure("ListenerException", "x", cause_class="SQLException")
    assert fingerprint(one) == fingerprint(replace(one, exception_class="JmsException"))
    assert fingerprint(one) != fingerprint(replace(one, cause_class="IOException"))


def test_another_frame_is_another_failure() -> None:
    one = Failure("E", "x", frames=("orders/handler.py:handle", "worker.py:run"))
    assert fingerprint(one) != fingerprint(replace(one, frames=("orders/totals.py:total",)))
    assert fingerprint(one) == fingerprint(replace(one, frames=("orders/handler.py:handle",)))


def test_a_frame_and_a_message_of_the_same_text_are_not_confused() -> None:
    assert fingerprint(Failure("E", "x", frames=("says y",))) != fingerprint(Failure("E", "y"))


@given(st.builds(Failure, st.text(), st.text(), st.none() | st.text(), stack=st.text()))
def test_any_failure_has_a_fingerprint_and_a_title(failure: Failure) -> None:
    assert len(fingerprint(failure)) == 16
    assert int(fingerprint(failure), 16) >= 0
    assert len(title(failure)) <= MAX_TITLE_CHARS
    assert "\n" not in title(failure)


def test_each_status_is_a_failure_of_its_own() -> None:
    prints = {fingerprint(http_status_failure(status, "", "")) for status in (301, 404, 422, 500, 503)}
    assert len(prints) == 5


def test_the_particulars_of_an_answer_do_not_split_a_group() -> None:
    one = http_status_failure(422, "Unprocessable Entity", "unknown order 7\nsecond line")
    other = http_status_failure(422, "Unprocessable Entity", "unknown order 12345")
    assert fingerprint(one) == fingerprint(other)
    assert one.message == "HTTP 422 Unprocessable Entity: unknown order 7"


CAUSES = [
    '{"currency": ["EURO is none"]}',
    '{"amount": ["A valid number is required."]}',
    '{"customer_id": "This field is required."}',
    '{"errors": [{"code": "out_of_stock", "order": 4711}]}',
    '{"error": "validation_failed", "message": "head.repo is missing"}',
    '{"error": "unknown_severity", "message": "low is not one"}',
]


def test_the_keys_of_a_json_answer_tell_causes_apart_and_its_values_do_not() -> None:
    prints = {fingerprint(http_status_failure(422, "", cause)) for cause in CAUSES}
    assert len(prints) == len(CAUSES)
    one, other = (json.dumps({"currency": [text]}, indent=2) for text in ('"EURO" is none', "DM is none"))
    assert fingerprint(http_status_failure(422, "", one)) == fingerprint(http_status_failure(422, "", other))
    assert fingerprint(http_status_failure(422, "", one)) in prints, "whether it is on one line does not count"
    named = title(http_status_failure(422, "", CAUSES[3]))
    assert named == '422 Unprocessable Entity: code "out_of_stock"'
    sentences = (json.dumps({"error": text}) for text in ("no order 7", "no order of ada", "EURO is none"))
    assert len({fingerprint(http_status_failure(422, "", sentence)) for sentence in sentences}) == 1


def test_a_key_that_varies_does_not_split_a_group() -> None:
    prints = {fingerprint(http_status_failure(422, "", json.dumps({key: "no"}))) for key in ("4711", "4712", "a b")}
    assert len(prints) == 1


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (Failure("java.io.IOException", "disk 7 full"), "IOException: disk … full"),
        (Failure("E", ""), "E"),
        (Failure("a.Wrapper", "x", cause_class="b.Cause", frames=("c.D.e",)), "Cause in c.D.e"),
        (http_status_failure(503, "Service Unavailable", ""), "503 Service Unavailable"),
        (http_status_failure(500, "", "order 7"), "500 Internal Server Error: order …"),
        (Failure("E", "x" * 500), "E: " + "x" * 196 + "…"),
    ],
)
def test_a_title_says_what_went_wrong_without_the_particulars(failure: Failure, line: str) -> None:
    assert title(failure) == line


JAVA = "a.Wrapper: no\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: disk\n\tat a.Files.read(Files.java:3)\n"


def test_a_dead_letters_cause_and_frame_are_read_from_its_stack() -> None:
    failure = from_dead_letter({"exception_class": "a.Wrapper", "exception_message": "no", "stack": JAVA})
    assert (failure.exception_class, failure.cause_class) == ("a.Wrapper", "java.io.IOException")
    assert failure.frame == "a.Files.read"
    assert title(failure) == "IOException in a.Files.read"


@pytest.mark.parametrize(
    ("told", "exception_class", "message"),
    [
        ({}, "UnknownFailure", ""),
        ({"reason": "rejected"}, "rejected", "rejected"),
        ({"reason": "rejected", "exception_message": "no"}, "rejected", "no"),
        ({"reason": "rejected", "exception_class": "E"}, "E", "rejected"),
        ({"stack": JAVA}, "a.Wrapper", ""),
        ({"exception_class": None, "stack": None}, "UnknownFailure", ""),
    ],
)
def test_a_dead_letter_that_tells_little_is_still_a_failure(
    told: dict[str, object], exception_class: str, message: str
) -> None:
    failure = from_dead_letter(told)
    assert (failure.exception_class, failure.message) == (exception_class, message)
    assert fingerprint(failure)


def test_a_parsed_dead_letter_serves_as_well() -> None:
    assert from_dead_letter(DeadLetter(reason="rejected")) == from_dead_letter({"reason": "rejected"})
