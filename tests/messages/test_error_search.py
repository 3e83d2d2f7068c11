"""`error:` finds the text that the screen shows: what a group says of all its failures, and each failure's message."""

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poisonadmin.core.domain.access import SYSTEM, Role, principal
from poisonadmin.groups.queries.groups import list_groups
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries import error_search
from poisonadmin.search.queries.failures import FailureFilter, list_failures
from poisonadmin.search.queries.lists import count_messages, list_messages
from poisonadmin.store.models.attempt import Attempt, FailureWords
from poisonadmin.store.models.message import Message
from tests.fixtures.pages import dead_letter, waiting

pytestmark = pytest.mark.django_db

ORDERS = (4721, 4722, 4723)
# PostgreSQL's index holds no longer word.
MAX_WORD_BYTES = 2046


@pytest.fixture(params=[(0, 1000), (1000, 0), (1000, 1000)], ids=["many phrases", "many words", "few"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search as where many failures hold the phrase, where many hold its words, and where few do."""
    monkeypatch.setattr(error_search, "FEW", request.param[0])
    monkeypatch.setattr(error_search, "MOST_COMPARED", request.param[1])


@pytest.fixture
def orders(few: None) -> None:
    """Hand in three dead letters of one failure group, whose messages differ in a number, and one message of no other
    failure.
    """
    for number in ORDERS:
        dead_letter(message_id=f"m{number}", dead_letter={"exception_message": f"order {number} has no customer"})
    waiting(message_id="w1")
    assert Message.objects.filter(group_id__isnull=False).values("group_id").distinct().count() == 1


def found(text: str, **params: str) -> list[str]:
    only = parse_filter({"error": [text]} | {name: [value] for name, value in params.items()})
    rows = list_messages(only, principal=SYSTEM).results
    assert count_messages(only, principal=SYSTEM).n == len(rows)
    return sorted(row.message_id for row in rows)


ALL = [f"m{number}" for number in ORDERS]
CASES = [
    ("order 4721", ["m4721"]),
    ("order 4722", ["m4722"]),
    ("ORDER 47", ALL),
    ("order-4722", ["m4722"]),
    ("  4723,\n has", ["m4723"]),
    ("4722 has no cust", ["m4722"]),
    ("order has", []),  # the words, and no phrase
    ("customer order", []),
    ("472", ALL),
    ("722", []),  # a word is found by its beginning
    ("example.Boo", ALL),  # the class, by any part
    ("xample.boom", ALL),
    ("order 4721 has no customer at all", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_failure_is_found_by_its_own_message(text: str, expected: list[str], orders: None) -> None:
    assert found(text) == expected
    assert found(text, state="NDLV") == expected
    quoted = text.replace("\n", " ")
    rows = list_messages(parse_filter({"q": [f'"{quoted}"']}), principal=SYSTEM).results
    assert sorted(row.message_id for row in rows) == expected
    rows = list_messages(parse_filter({"q": [f'!error:"{quoted}"']}), principal=SYSTEM).results
    assert sorted(row.message_id for row in rows) == sorted({*ALL, "w1"} - {*expected})


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_the_failure_log_is_searched_alike(text: str, expected: list[str], orders: None) -> None:
    rows = list_failures(FailureFilter(errors=(text,)), principal=SYSTEM).results
    assert sorted(f"m{row.error_message.split()[1]}" for row in rows if row.error_message) == expected


def test_any_of_several_texts_is_enough(orders: None) -> None:
    only = parse_filter({"error": ["order 4721", "?!", "4723"]})
    rows = list_messages(only, principal=SYSTEM).results
    assert sorted(row.message_id for row in rows) == ["m4721", "m4723"]


def test_the_last_failure_counts(orders: None) -> None:
    message = Message.objects.get(id=Attempt.objects.get(error_message__startswith="order 4722").message_id)
    Attempt.objects.create(
        message_id=message.id, attempt_number=1, finished_at=message.failed_at, outcome="failed", error_class="Late",
        error_message="order 5000 is late",
    )  # fmt: skip
    Attempt.objects.create(
        message_id=message.id, attempt_number=2, finished_at=message.failed_at, outcome="delivered",
    )  # fmt: skip
    assert found("order 4722") == []
    assert found("order 5000") == ["m4722"]
    both = list_failures(FailureFilter(errors=("order 4722", "order 5000")), principal=SYSTEM).results
    assert len(both) == 2


def test_another_group_with_the_words_is_found_beside_that_of_the_name(few: None) -> None:
    dead_letter(message_id="named", dead_letter={"exception_class": "TimeoutError", "exception_message": "gone"})
    dead_letter(message_id="said", dead_letter={"exception_class": "Other", "exception_message": "timeouterror: 5 s"})
    dead_letter(message_id="both", dead_letter={"exception_class": "TimeoutError", "exception_message": "TimeoutError"})
    dead_letter(message_id="none", dead_letter={"exception_class": "Other", "exception_message": "gone"})
    assert found("timeouterror") == ["both", "named", "said"]


def test_a_search_never_reaches_beyond_the_scope(orders: None) -> None:
    only = parse_filter({"error": ["order 4722"]})
    for patterns, expected in ((["bills.#"], 0), (["orders.#"], 1)):
        limited = principal("kim", Role.VIEWER, patterns)
        assert len(list_messages(only, principal=limited).results) == expected
        assert len(list_failures(FailureFilter(errors=("order 4722",)), principal=limited).results) == expected


HOSTILE = [
    *("'", "''", "\\", "' | 'x", "a' & !'b", ":*", "&|!()<->", "%", "_", "…", "\u202e"),
    *("x" * 1000, "😀" * 1000, "注" * 700, "é" * 999, "a\tb\r\nc", "a@b.c", "http://a/b?c=d", "&amp;<b>"),
    *("$1", "%s", "%(x)s", "{}", "1e5", "4e", "-1.5e-7", "0x1f"),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_breaks_the_search(text: str, few: None) -> None:
    dead_letter(message_id="same", dead_letter={"exception_message": f"it said: {text}; no more"})
    dead_letter(message_id="other", dead_letter={"exception_class": "Other", "exception_message": "fine"})
    has_words = any(character.isalnum() for character in text)
    assert found(text) == (["same"] if has_words and len(text.encode()) < MAX_WORD_BYTES else [])
    list_failures(FailureFilter(errors=(text,)), principal=SYSTEM)
    list_groups(parse_filter({"failure": [text]}), principal=SYSTEM)


TEXTS = st.text(st.sampled_from("abE1 40xé.-_/@:'\"&<>%\\\n注ßİ→\u0301\u00a0²"), max_size=30)


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=TEXTS, start=st.integers(0, 30), length=st.integers(1, 30))
def test_every_phrase_of_a_message_is_in_the_index(message: str, start: int, length: int) -> None:
    """What a message holds word by word, its last word's beginning included, the index's condition lets through."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT searchable_words(%s)", [message])
        words = cursor.fetchone()[0].split()
        phrase = " ".join(words[start % (len(words) or 1) :])[:length].strip()
        if not phrase:
            return
        (wanted,) = error_search.phrases([phrase])
        cursor.execute(
            "SELECT to_tsvector('simple', searchable_words(%s)) @@ %s::tsquery, strpos(searchable_words(%s), %s) > 0",
            [message, wanted.query, message, wanted.words],
        )
        assert cursor.fetchone() == (True, True)


def test_equal_texts_of_one_statement_are_one_text_in_the_index() -> None:
    first = dead_letter(message_id="m1")
    FailureWords.objects.all().delete()
    said = [
        ("failed", "Order 7 is late."),
        ("failed", "Order 7 is late."),
        ("failed", "Order 8 is late."),
        ("failed", None),
        ("delivered", "Order 9 is late."),
    ]
    Attempt.objects.bulk_create(
        Attempt(
            message_id=first.id, attempt_number=number, finished_at=first.failed_at, outcome=outcome, error_message=text
        )
        for number, (outcome, text) in enumerate(said, start=1)
    )
    assert list(FailureWords.objects.order_by("words").values_list("words", "message_ids", "attempt_numbers")) == [
        (" order 7 is late ", [first.id, first.id], [1, 2]),
        (" order 8 is late ", [first.id], [3]),
    ]


def test_what_is_written_over_a_failure_is_found_and_the_former_text_is_not(orders: None) -> None:
    Attempt.objects.filter(error_message__startswith="order 4722").update(error_message="order 4729 came back")
    assert found("order 4722") == []
    assert found("order 4729") == ["m4722"]
    assert list_failures(FailureFilter(errors=("order 4722",)), principal=SYSTEM).results == []
