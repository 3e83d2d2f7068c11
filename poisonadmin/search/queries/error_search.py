"""Failures by a text of theirs: what a failure group says of all its failures, and each failure's own message.

Groups are few, so title, class and cause are searched for the text as it is, in any case. Messages are searched by
words: an index names the texts that hold all words, the last one by its beginning; each text says whether they stand
there as a phrase, and names the failures that said so (store/migrations/0001_tables.sql).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_rows, fetch_values, one_of
from poisonadmin.search.queries.group_members import visible_members

Condition = tuple[str, Sequence[Any]]

# Up to so many failures are named by their ids; where more hold the words, messages are compared as they are read.
FEW = 10_000
# So many texts that hold all words, in whatever order, are compared with the phrase before other filters narrow the
# search.
MOST_COMPARED = 1_000_000
_HOLDS = "searchable_words({}.error_message) LIKE ANY ({})"
# Whatever has no class is no failure: a handler discarded it, moved it or rolled it back.
# OFFSET 0 is a fence: the planner, which does not know that few are asked for, would read all attempts.
_LATER = """SELECT FROM attempt later WHERE later.message_id = t.message_id AND later.attempt_number > t.attempt_number
 AND later.outcome <> 'delivered' AND later.error_class IS NOT NULL OFFSET 0"""
_LATEST = """SELECT error_message FROM attempt WHERE message_id = m.id AND outcome <> 'delivered'
 AND error_class IS NOT NULL ORDER BY attempt_number DESC LIMIT 1"""


@dataclass(frozen=True)
class Phrase:
    """`words` as messages have them, with a blank before; `query`: what the index is asked for."""

    words: str
    query: str


def phrases(texts: Sequence[str]) -> list[Phrase]:
    """Return the phrases that `texts` are; one without a letter or digit is none."""
    # Words that are too long for the index are left out of what it is asked for, and with them a query of nothing else.
    found = fetch_rows(
        """SELECT rtrim(searchable_words(wanted)), plainto_tsquery('simple', searchable_words(wanted))::text
           FROM unnest(%s::text[]) AS wanted""",
        [list(texts)],
    )
    return [Phrase(words, f"{query}:*") for words, query in found if query]


def groups_holding(texts: Sequence[str], visible: Sequence[int] | None, *, with_sample: bool = False) -> list[int]:
    """Return the ids of the failure groups whose title, class or cause holds one of `texts`, in any case; so do those
    of the group that one is merged into, where that is `visible` (None: all are).

    `with_sample`: or the message of the group's sample does. A search reads one attempt a group, by its key.
    """
    message = "left(t.error_message, 4000)" if with_sample else "NULL"
    among, ids = ("", []) if visible is None else (" AND other.id = ANY(%s)", [list(visible)])
    return fetch_values(
        f"""SELECT g.id FROM failure_group g LEFT JOIN attempt t
            ON t.message_id = g.sample_message_id AND t.fingerprint = g.fingerprint
            LEFT JOIN failure_group other ON other.id = g.merged_into_id{among}
            WHERE EXISTS (SELECT FROM unnest(%s::text[]) AS wanted (word)
              WHERE strpos(lower(concat_ws(chr(10), g.title, g.error_class, t.cause_class, {message},
                                         other.title, other.error_class)),
                           lower(word)) > 0) GROUP BY g.id""",  # noqa: S608
        [*ids, list(texts)],
    )


@dataclass(frozen=True)
class Branches:
    """The messages in one of `groups`, and those whose latest failure says it: the few with `ids`, or, where those are
    None, all that fulfil `rest`.
    """

    groups: Sequence[int]
    ids: Sequence[int] | None
    rest: Condition

    @property
    def are_few(self) -> bool:
        """True when `conditions` say it all."""
        return self.ids is not None

    @property
    def conditions(self) -> list[str]:
        """The SQL condition for each branch; no message fulfils two."""
        found = [f"m.group_id = {int(group)}" for group in self.groups]
        if self.ids:
            others = "".join(f" AND m.group_id IS DISTINCT FROM {int(group)}" for group in self.groups)
            found.append(f"{one_of('m.id', self.ids)}{others}")
        return found

    @property
    def condition(self) -> Condition:
        """One SQL condition for all of them."""
        sql, values = ("m.id = ANY(%s)", [list(self.ids)]) if self.ids is not None else self.rest
        return f"m.group_id = ANY(%s) OR {sql}", [list(self.groups), *values]


def messages_holding(texts: Sequence[str], principal: Principal) -> Branches:
    """Return what finds each `message m` whose group, as the principal sees it, or whose latest failure's message,
    holds one of `texts`.
    """
    wanted = phrases(texts)
    found = _few(wanted, f"t.error_class IS NOT NULL AND NOT EXISTS ({_LATER})")
    each = f"EXISTS (SELECT FROM ({_LATEST}) AS latest WHERE {_HOLDS.format('latest', '%s')})"
    return Branches(
        groups_holding(texts, visible_members(principal)),
        None if found is None else [message_id for message_id, _ in found],
        (each, [_patterns(wanted)]),
    )


def attempt_condition(texts: Sequence[str], principal: Principal) -> Condition:
    """Return the condition that an `attempt t` of the search fulfils, whose group is `failure_group g`."""
    groups, wanted = groups_holding(texts, visible_members(principal)), phrases(texts)
    found = _few(wanted, "TRUE")
    # An OR with what is empty would keep the planner from going to the few.
    either: dict[str, Sequence[Any]] = {"g.id = ANY(%s)": [groups]} if groups else {}
    if found is None:
        # Many hold it, which the planner would not believe: it would read all attempts and order them.
        either[f"CASE WHEN {_HOLDS.format('t', '%s')} THEN TRUE END"] = [_patterns(wanted)]
    elif found:
        few = "(t.message_id, t.attempt_number) IN (SELECT * FROM unnest(%s::bigint[], %s::int[]))"
        either[few] = [[message_id for message_id, _ in found], [number for _, number in found]]
    return " OR ".join(either) or "FALSE", [value for values in either.values() for value in values]


def _few(wanted: Sequence[Phrase], condition: str) -> list[tuple[Any, ...]] | None:
    """Return message id and number of each `attempt t` that holds a phrase; None where that takes reading many."""
    if not wanted:
        return []
    # Texts are read until too many hold the phrase. Attempts are asked one by one: the planner, which does not know how
    # few are named, would read all of them.
    found = fetch_rows(
        f"""WITH said AS MATERIALIZED (
              SELECT each.*, place > %(most)s AS is_beyond
              FROM (SELECT words, message_ids, attempt_numbers, row_number() OVER () AS place FROM failure_words
                    WHERE to_tsvector('simple', words) @@ %(query)s::tsquery LIMIT %(most)s + 1) AS w
                CROSS JOIN LATERAL unnest(message_ids, attempt_numbers) AS each (message_id, attempt_number)
              WHERE words LIKE ANY (%(patterns)s) OR place > %(most)s LIMIT %(few)s + 1
            ), many AS MATERIALIZED (SELECT count(*) > %(few)s OR bool_or(is_beyond) AS are_many FROM said)
            SELECT NULL, NULL FROM many WHERE are_many
            UNION ALL SELECT t.message_id, t.attempt_number FROM said CROSS JOIN LATERAL (
              SELECT * FROM attempt WHERE message_id = said.message_id AND attempt_number = said.attempt_number OFFSET 0
            ) AS t WHERE (SELECT are_many FROM many) IS NOT TRUE AND {_HOLDS.format("t", "%(patterns)s")}
              AND {condition}""",  # noqa: S608
        {"query": _any(wanted), "patterns": _patterns(wanted), "few": FEW, "most": MOST_COMPARED},
    )
    return None if (None, None) in found else found


def _any(wanted: Sequence[Phrase]) -> str:
    return " | ".join(f"({phrase.query})" for phrase in wanted)


def _patterns(wanted: Sequence[Phrase]) -> list[str]:
    # Letters, digits and blanks mean themselves.
    return [f"%{phrase.words}%" for phrase in wanted]
