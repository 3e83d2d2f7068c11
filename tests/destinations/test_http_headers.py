"""Which of a producer's headers go along with a delivery."""

import pytest

from poisonadmin.destinations.domain.http_config import CopyList, field_text, is_sendable


@pytest.mark.parametrize(
    "name",
    [
        "X-GitHub-Event",
        "x-github-delivery",
        "ce-type",
        "traceparent",
        "Correlation-Id",
        "Content-Encoding",
        "Webhook-Id",
    ],
)
def test_what_describes_a_message_is_copied(name):
    assert CopyList().copies(name)


@pytest.mark.parametrize(
    "name",
    [
        "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer",
        "Upgrade", "Expect", "Authorization", "AUTHORIZATION", "Cookie", "Set-Cookie", "Proxy-Authorization",
        "Proxy-Connection", "Via", "Forwarded", "X-Forwarded-For", "X-Real-IP", "X-Api-Key", "PoisonAdmin-Attempt",
        "poisonadmin-message-id", "X A", "X-A:", "X-A\r\nX-B", "",
    ],
)  # fmt: skip
def test_what_frames_or_identifies_a_request_is_never_copied(name):
    assert not CopyList().copies(name)
    assert not CopyList(["*", name]).copies(name)


def test_a_destination_may_choose_what_is_copied():
    chosen = CopyList(["Subject", "my-*"])
    assert chosen.copies("subject")
    assert chosen.copies("My-Kind")
    assert not chosen.copies("X-GitHub-Event")


def test_names_that_are_made_up_without_end_do_not_fill_the_memory():
    chosen = CopyList()
    for n in range(5000):
        assert chosen.copies(f"X-{n}")
    assert len(chosen._decided) <= 1001


@pytest.mark.parametrize("value", ["a\r\nb", "a\nb", "a\rb", "a\0b", "a\x7fb", "\x1b[31m"])
def test_a_value_that_would_break_the_request_is_not_sendable(value):
    assert not is_sendable("X-Kind", value)


@pytest.mark.parametrize("value", ["", "a", "a\tb", "ümlaut", "a: b"])
def test_other_values_are_sendable(value):
    assert is_sendable("X-Kind", value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a.b", "a.b"), ("50%", "50%25"), ("a\r\nb", "a%0D%0Ab"), ("日", "%E6%97%A5"), ("a b", "a b")],
)
def test_ids_are_written_so_that_they_fit_a_header(text, expected):
    assert field_text(text) == expected
