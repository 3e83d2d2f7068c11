"""Failures by a text of theirs: what a failure group says of all its failures, and each failure's own message.

Groups are few, so title, class and cause are searched for the text as it is, in any case. Messages are searched by
words: an index names the texts that hold all words, the last one by its beginning; each text says whether they stand
there as a phrase, and names the failures that said so (store/migrations/beside_tables.sql).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.queries.rows import fetch_rows, fetch_values, one_of
from poisonadmin.core.queries.sql import Sql, all_of, any_of, name
from poisonadmin.search.queries.group_members import visible_members

# Up to so many failures are named by their ids; where more hold the words, messages are compared as they are read.
FEW = 10_000
# So many texts that hold all words, in whatever order, are compared with the phrase before other filters narrow the
# search.
MOST_COMPARED = 1_000_000
# Whatever has no class is no failure: a handler discarded it, moved it or rolled it back.
# OFFSET 0 is a fence: the planner, which does not know that few are asked for, would read all attempts.
_LATER = Sql("""SELECT FROM attempt later WHERE later.message_id = t.message_id
 AND later.attempt_number > t.attempt_number AND later.outcome <> 'delivered'
 AND later.error_class IS NOT NULL OFFSET 0""")
_LATEST = Sql("""SELECT error_message FROM attempt WHERE message_id = m.id AND outcome <> 'delivered'
 AND error_class IS NOT NULL ORDER BY attempt_number DESC LIMIT 1""")


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
    message = Sql("left(t.error_message, 4000)") if with_sample else Sql("NULL")
    is_seen = Sql("TRUE") if visible is None else Sql("other.id = ANY({ids})", ids=list(visible))
    return fetch_values(
        Sql(
            """SELECT g.id FROM failure_group g LEFT JOIN attempt t
            ON t.message_id = g.sample_message_id AND t.fingerprint = g.fingerprint
            LEFT JOIN failure_group other ON other.id = g.merged_into_id AND {is_seen}
            WHERE EXISTS (SELECT FROM unnest({texts}::text[]) AS wanted (word)
              WHERE strpos(lower(concat_ws(chr(10), g.title, g.error_class, t.cause_class, {message},
                                         other.title, other.error_class)),
                           lower(word)) > 0) GROUP BY g.id""",
            is_seen=is_seen,
            texts=list(texts),
            message=message,
        )
    )


@dataclass(frozen=True)
class Branches:
    """The messages in one of `groups`, and those whose latest failure says it: the few with `ids`, or, where those are
    None, all that fulfil `rest`.
    """

    groups: Sequence[int]
    ids: Sequence[int] | None
    rest: Sql

    @property
    def are_few(self) -> bool:
        """True when `conditions` say it all."""
        return self.ids is not None

    @property
    def conditions(self) -> list[Sql]:
        """The condition for each branch; no message fulfils two."""
        found = [one_of("m.group_id", [group]) for group in self.groups]
        if self.ids:
            others = [Sql("m.group_id IS DISTINCT FROM {id}", id=int(group)) for group in self.groups]
            found.append(all_of([one_of("m.id", self.ids), *others]))
        return found

    @property
    def condition(self) -> Sql:
        """One condition for all of them."""
        others = self.rest if self.ids is None else Sql("m.id = ANY({ids})", ids=list(self.ids))
        return any_of([Sql("m.group_id = ANY({groups})", groups=list(self.groups)), others])


def messages_holding(texts: Sequence[str], principal: Principal) -> Branches:
    """Return what finds each `message m` whose group, as the principal sees it, or whose latest failure's message,
    holds one of `texts`.
    """
    wanted = phrases(texts)
    is_latest = Sql("t.error_class IS NOT NULL AND NOT EXISTS ({later})", later=_LATER)
    found = _few(wanted, is_latest)
    return Branches(
        groups_holding(texts, visible_members(principal)),
        None if found is None else [message_id for message_id, _ in found],
        Sql("EXISTS (SELECT FROM ({latest}) AS latest WHERE {holds})", latest=_LATEST, holds=_holds("latest", wanted)),
    )


def attempt_condition(texts: Sequence[str], principal: Principal) -> Sql:
    """Return the condition that an `attempt t` of the search fulfils, whose group is `failure_group g`."""
    groups, wanted = groups_holding(texts, visible_members(principal)), phrases(texts)
    found = _few(wanted, Sql("TRUE"))
    # An OR with what is empty would keep the planner from going to the few.
    either = [Sql("g.id = ANY({groups})", groups=groups)] if groups else []
    if found is None:
        # Many hold it, which the planner would not believe: it would read all attempts and order them.
        either.append(Sql("CASE WHEN {holds} THEN TRUE END", holds=_holds("t", wanted)))
    elif found:
        few = Sql(
            "(t.message_id, t.attempt_number) IN (SELECT * FROM unnest({ids}::bigint[], {numbers}::int[]))",
            ids=[message_id for message_id, _ in found],
            numbers=[number for _, number in found],
        )
        either.append(few)
    return any_of(either)


def _holds(of: str, wanted: Sequence[Phrase]) -> Sql:
    """Return the condition that the message of an attempt holds a phrase."""
    return Sql(
        "searchable_words({message}) LIKE ANY ({patterns})",
        message=name(f"{of}.error_message"),
        patterns=_patterns(wanted),
    )


def _few(wanted: Sequence[Phrase], condition: Sql) -> list[tuple[Any, ...]] | None:
    """Return message id and number of each `attempt t` that holds a phrase; None where that takes reading many."""
    if not wanted:
        return []
    # Texts are read until too many hold the phrase. Attempts are asked one by one: the planner, which does not know how
    # few are named, would read all of them.
    found = fetch_rows(
        Sql(
            """WITH said AS MATERIALIZED (
              SELECT each.*, place > {most} AS is_beyond
              FROM (SELECT words, message_ids, attempt_numbers, row_number() OVER () AS place FROM failure_words
                    WHERE to_tsvector('simple', words) @@ {query}::tsquery LIMIT {most} + 1) AS w
                CROSS JOIN LATERAL unnest(message_ids, attempt_numbers) AS each (message_id, attempt_number)
              WHERE words LIKE ANY ({patterns}) OR place > {most} LIMIT {few} + 1
            ), many AS MATERIALIZED (SELECT count(*) > {few} OR bool_or(is_beyond) AS are_many FROM said)
            SELECT NULL, NULL FROM many WHERE are_many
            UNION ALL SELECT t.message_id, t.attempt_number FROM said CROSS JOIN LATERAL (
              SELECT * FROM attempt WHERE message_id = said.message_id AND attempt_number = said.attempt_number OFFSET 0
            ) AS t WHERE (SELECT are_many FROM many) IS NOT TRUE AND {holds} AND {condition}""",
            query=_any(wanted),
            patterns=_patterns(wanted),
            few=FEW,
            most=MOST_COMPARED,
            holds=_holds("t", wanted),
            condition=condition,
        )
    )
    return None if (None, None) in found else found


def _any(wanted: Sequence[Phrase]) -> str:
    return " | ".join(f"({phrase.query})" for phrase in wanted)


def _patterns(wanted: Sequence[Phrase]) -> list[str]:
    # Letters, digits and blanks mean themselves.
    return [f"%{phrase.words}%" for phrase in wanted]
