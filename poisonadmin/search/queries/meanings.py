"""The meaning of each field of a filter: among live messages, in the archive's index, and in the archive's files.

The words that say a field are declared in `poisonadmin/search/domain/words.py`. A dialect in which a field has no
meaning refuses it, with `words.refusal`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.addresses import is_pattern
from poisonadmin.core.queries.masking import clear_of_masks, masks_of
from poisonadmin.core.queries.rows import fetch_values
from poisonadmin.core.queries.scope import (
    address_ids,
    addresses_delivering_to,
    addresses_holding,
    pattern_regex,
    visible_ids,
)
from poisonadmin.core.queries.sql import Sql, all_of, any_of, name, raw
from poisonadmin.messages.queries.counts import CONFIRMING
from poisonadmin.messages.queries.dead_letter_queues import in_any_queue, queues_of
from poisonadmin.messages.queries.due import come_due
from poisonadmin.messages.queries.merged_groups import SEEN_AS, with_members
from poisonadmin.search.domain import spark_sql
from poisonadmin.search.domain.filters import MessageFilter, Term
from poisonadmin.search.domain.payload_words import DEEP
from poisonadmin.search.domain.spark_sql import is_one_of, spark_text, spark_time
from poisonadmin.search.domain.words import FREE
from poisonadmin.search.queries.error_search import Branches, groups_holding, messages_holding
from poisonadmin.search.queries.group_members import visible_members
from poisonadmin.search.queries.owners import NOBODY

# Up to so many messages a free word may name by id before the search walks the messages instead.
FEW = 20_000
# Of what has both, the first ends it. A group has the failures of what is merged into it.
IS_SNOOZED = Sql(
    """(said.snoozed_until IS NOT NULL OR said.snoozed_failures IS NOT NULL)
     AND coalesce(said.snoozed_until > now(), TRUE)
     AND coalesce(said.snoozed_failures > (
         SELECT sum(grown.failures) FROM failure_group grown
         WHERE grown.id = said.group_id OR grown.merged_into_id = said.group_id), TRUE)"""
)


@dataclass(frozen=True)
class SearchReader:
    """The reader of a search, and the time that spans are counted back from."""

    principal: Principal
    now: datetime


@dataclass(frozen=True)
class Meaning:
    """The condition of a field in each dialect; None: there is none. Whether the term is negated is not part of it.

    `live`: over `message m`. `index`: over `archived_message r`. `files`: in Spark's SQL over `m`, an archived
    message; it may return None for some values. `are_files_near`: the files find less than live messages do. `ids`:
    turns the values of a term into those of the counters' column. `groups`: turns them into ids of failure groups; a
    field that has it needs nothing else.
    """

    live: Callable[[Term, Principal], Sql | Branches] | None = None
    index: Callable[[Term], Sql] | None = None
    files: Callable[[Term, SearchReader], str | None] | None = None
    are_files_near: bool = False
    ids: Callable[[Sequence[Any]], list[Any]] | None = None
    groups: Callable[[Sequence[Any], Principal], list[int]] | None = None


_OPERATORS = {operator: raw(operator) for operator in ("=", "<", "<=", ">", ">=")}


def _codes(values: Sequence[Any]) -> list[str]:
    return [str(value) for value in values]


def _any(column: str, read: Callable[[Sequence[Any]], list[Any]] = _codes) -> Callable[[Term], Sql]:
    return lambda term: Sql("{column} = ANY({values})", column=name(column), values=read(term.values))


def _compared(column: Sql) -> Callable[[Term], Sql]:
    return lambda term: Sql(
        "{column} {operator} {value}", column=column, operator=_OPERATORS[term.operator], value=term.values[0]
    )


def _ago(column: Sql) -> Callable[[Term], Sql]:
    return lambda term: Sql("{column} > now() - {span}", column=column, span=term.values[0])


def _live(condition: Callable[[Term], Sql]) -> Callable[[Term, Principal], Sql]:
    return lambda term, _: condition(term)


def _texts(column: str) -> Callable[[Term, SearchReader], str | None]:
    return lambda term, _: is_one_of(column, _codes(term.values))


def _addresses(column: str) -> Callable[[Term, SearchReader], str | None]:
    return lambda term, _: on_addresses(column, term.values)


def on_addresses(column: str, patterns: Sequence[str]) -> str | None:
    """Return the condition in Spark's SQL that a column is an address that one of the names or patterns covers."""
    regexes = [pattern_regex(one) for one in patterns if is_pattern(one)]
    matches = [f"concat({column}, '.') RLIKE {spark_text(regex)}" for regex in regexes]
    return spark_sql.either(is_one_of(column, [one for one in patterns if not is_pattern(one)]), *matches)


def _address(term: Term, _: Principal) -> Sql:
    ids = Sql("m.address_id = ANY({ids})", ids=address_ids(term.values))
    return any_of([ids, in_any_queue(queues_of(term.values))])


def _candidate(term: Term, _: Principal) -> Sql:
    return Sql("m.candidate") if term.values[0] else Sql("NOT m.candidate")


def _held(term: Term, _: Principal) -> Sql:
    held = Sql("m.id IN (SELECT id FROM ({come_due}) waiting WHERE is_held)", come_due=come_due(most=None))
    return held if term.values[0] else held.negated


def _confirmation(term: Term, _: Principal) -> Sql:
    # A row of an earlier attempt says nothing of this one.
    return Sql(
        """m.state = 'DLVD' AND EXISTS (
        SELECT FROM confirmation c WHERE c.message_id = m.id AND c.attempt_number = m.attempt_number AND ({said}))""",
        said=any_of(CONFIRMING[value] for value in term.values),
    )


def _envelope(column: str) -> Callable[[Term, Principal], Sql]:
    return lambda term, _: Sql(
        "m.id IN (SELECT e.id FROM envelope e WHERE e.{column} = ANY({values}))",
        column=name(column),
        values=list(term.values),
    )


def _header(term: Term, _: Principal) -> Sql:
    # `headers` is compact JSON of strings, in which a quotation mark inside a text is escaped: name and value between
    # bare quotation marks can only be a member. Looking for bytes parses nothing that a producer wrote.
    held = [Sql("position({it}::bytea in b.headers) > 0", it=header_member(term.name, value)) for value in term.values]
    return Sql("EXISTS (SELECT FROM body b WHERE b.id = m.id AND ({held}))", held=any_of(held))


def header_member(header: str, value: str) -> bytes:
    """Return the bytes of one member of the JSON object that `body.headers` holds."""
    return json.dumps({header: value}, ensure_ascii=False, separators=(",", ":"))[1:-1].encode()


def _key(of: Sql) -> Callable[[Term], Sql]:
    return lambda term: Sql(
        "{of} IN (SELECT k.message_id FROM business_key k WHERE k.value = ANY({values}) AND k.name = {name})",
        of=of,
        values=list(term.values),
        name=term.name,
    )


def _owned_by(names: Sequence[Any]) -> Sql:
    accounts = fetch_values(Sql("SELECT id FROM auth_user WHERE username = ANY({names})", names=list(names)))
    return Sql("owner_id = ANY({accounts})", accounts=accounts)


def _tagged_with(tags: Sequence[Any]) -> Sql:
    return Sql("tags && {tags}::varchar[]", tags=list(tags))


def _message_annotated(annotated: Sql) -> Sql:
    return Sql("EXISTS (SELECT FROM annotation w WHERE w.message_id = m.id AND {annotated})", annotated=annotated)


def _groups_annotated(annotated: Sql) -> list[int]:
    # The groups are those that people see.
    return fetch_values(
        Sql("SELECT group_id FROM annotation WHERE group_id IS NOT NULL AND {annotated}", annotated=annotated)
    )


def _owner(term: Term, _: Principal) -> Sql:
    owned = _message_annotated(_owned_by(term.values))
    if NOBODY not in term.values:
        return owned
    return any_of([owned, Sql("NOT {has_owner}", has_owner=_message_annotated(Sql("owner_id IS NOT NULL")))])


def _owner_in_files(term: Term, _: SearchReader) -> str | None:
    nobody = ["m.owner IS NULL"] if NOBODY in term.values else []
    return spark_sql.either(is_one_of("m.owner", list(term.values)), *nobody)


def _consumer_version(term: Term, _: Principal) -> Sql:
    return Sql(
        """m.id IN (
        SELECT t.message_id FROM attempt t
        WHERE t.consumer_version = ANY({versions}) AND t.outcome <> 'delivered' AND NOT EXISTS (
            SELECT FROM attempt later WHERE later.message_id = t.message_id
                AND later.attempt_number > t.attempt_number AND later.outcome <> 'delivered'))""",
        versions=list(term.values),
    )


def _destination(term: Term, principal: Principal) -> Sql:
    return Sql(
        "coalesce(m.original_address_id, m.address_id) = ANY({ids})",
        ids=addresses_delivering_to(term.values, principal),
    )


def _destination_in_files(term: Term, reader: SearchReader) -> str | None:
    names = _names(addresses_delivering_to(term.values, reader.principal))
    return is_one_of("coalesce(m.original_address, m.address)", names)


def _error(term: Term, principal: Principal) -> Branches:
    return messages_holding(term.values, principal)


def _error_in_files(term: Term, reader: SearchReader) -> str | None:
    """The archive's files know a failure's group and not its message, so they cannot tell which do not hold a text."""
    if term.negated:
        return None
    groups = groups_holding(_codes(term.values), visible_members(reader.principal))
    fingerprints = fetch_values(Sql("SELECT fingerprint FROM failure_group WHERE id = ANY({ids})", ids=groups))
    return is_one_of("m.fingerprint", fingerprints)


def _word(term: Term, principal: Principal) -> Sql | Branches:
    """Message and conversation ids, and business keys, that begin with the word; addresses and errors that hold it.

    Few messages are named, and groups.
    """
    word = str(term.values[0])
    start = _starting(word)
    named = fetch_values(
        Sql(
            """(SELECT id FROM envelope WHERE message_id LIKE {start} LIMIT {most})
            UNION (SELECT id FROM envelope WHERE conversation_id LIKE {start} LIMIT {most})
            UNION (SELECT message_id FROM business_key WHERE value LIKE {start} LIMIT {most})""",
            start=start,
            most=FEW + 1,
        )
    )
    error, addresses = messages_holding([word], principal), addresses_holding(word)
    if masks_of(principal):
        return _word_of_masked(start, error, addresses, principal)
    if len(named) <= FEW and error.ids is not None and not addresses:
        return replace(error, ids=sorted({*named, *error.ids}))
    found = (
        Sql("m.id = ANY({named})", named=named)
        if len(named) <= FEW
        else Sql(
            """EXISTS (SELECT FROM envelope e WHERE e.id = m.id
                       AND (e.message_id LIKE {start} OR e.conversation_id LIKE {start}))
            OR EXISTS (SELECT FROM business_key k WHERE k.message_id = m.id AND k.value LIKE {start})""",
            start=start,
        )
    )
    on = [Sql("m.address_id = ANY({addresses})", addresses=addresses)] if addresses else []
    return any_of([found, *on, error.condition])


def _word_of_masked(start: str, error: Branches, addresses: Sequence[int], principal: Principal) -> Sql:
    """Return the same where something is masked at some addresses: of what is, only the others are compared."""
    key = Sql("EXISTS (SELECT FROM business_key k WHERE k.message_id = m.id AND k.value LIKE {start})", start=start)
    clear = clear_of_masks(principal)
    ids: dict[bool, list[Sql]] = {True: [], False: []}
    for column in ("message_id", "conversation_id"):
        begins = Sql("e.{column} LIKE {start}", column=name(column), start=start)
        ids[is_content(column, principal)].append(begins)
    named, hidden = (
        Sql("EXISTS (SELECT FROM envelope e WHERE e.id = m.id AND {ids})", ids=any_of(ids[is_hidden]))
        for is_hidden in (False, True)
    )
    on = Sql("m.address_id = ANY({addresses})", addresses=list(addresses))
    return any_of([named, on, all_of([clear, any_of([hidden, key, error.condition])])])


def _word_in_index(term: Term) -> Sql:
    word = str(term.values[0])
    return Sql(
        """r.id IN (
            SELECT id FROM archived_message WHERE message_id LIKE {start} OR conversation_id LIKE {start}
            UNION SELECT k.message_id FROM business_key k WHERE k.value LIKE {start}
        ) OR r.address_id = ANY({addresses})""",
        start=_starting(word),
        addresses=addresses_holding(word),
    )


def _word_in_files(term: Term, reader: SearchReader) -> str | None:
    (word,) = term.values
    return spark_sql.either(
        _error_in_files(term, reader),
        *(f"startswith(m.{column}, {spark_text(word)})" for column in ("message_id", "conversation_id")),
        spark_sql.any_member_starts("keys", word),
        is_one_of("m.address", _names(addresses_holding(word))),
    )


def _starting(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def _names(ids: Sequence[int]) -> list[str]:
    return fetch_values(Sql("SELECT name FROM address WHERE id = ANY({ids}) ORDER BY id", ids=list(ids)))


def _groups_snoozed(flags: Sequence[Any], _: Principal) -> list[int]:
    # What nobody has said anything of is not snoozed either.
    return fetch_values(
        Sql(
            """SELECT g.id FROM failure_group g LEFT JOIN annotation said ON said.group_id = g.id
            WHERE g.merged_into_id IS NULL AND (({is_snoozed}) IS TRUE) = ANY({flags})""",
            is_snoozed=IS_SNOOZED,
            flags=list(flags),
        )
    )


def _groups_of_text(texts: Sequence[Any], principal: Principal) -> list[int]:
    """Only groups with a message that the principal sees are compared with a text. The message of a group's sample is
    compared only for who sees every address: it may be on any.
    """
    visible = visible_members(principal)
    holding = groups_holding(_codes(texts), visible, with_sample=principal.sees_everything)
    if visible is not None:
        holding = sorted(set(holding) & set(visible))
    holding = sorted(set(holding) - masks_of(principal).groups)
    return fetch_values(
        Sql("SELECT {seen_as} FROM failure_group g WHERE g.id = ANY({ids})", seen_as=SEEN_AS, ids=holding)
    )


def _at(column: str, live: Sql) -> Meaning:
    return Meaning(
        _live(_compared(live)),
        _compared(name(f"r.{column}")),
        lambda term, _: f"m.{column} {term.operator} {spark_time(term.values[0])}",
    )


def _since(column: str, live: Sql) -> Meaning:
    return Meaning(
        _live(_ago(live)),
        _ago(name(f"r.{column}")),
        lambda term, reader: f"m.{column} > {spark_time(reader.now - term.values[0])}",
    )


# No EXISTS: the planner would make a join of it, and read all envelopes for the first fifty messages.
_RECEIVED = Sql("(SELECT e.received_at FROM envelope e WHERE e.id = m.id)")
_FAILED = Sql("m.failed_at")
MEANINGS: dict[str, Meaning] = {
    "state": Meaning(_live(_any("m.state")), _any("r.state"), _texts("m.state"), ids=_codes),
    "reason": Meaning(_live(_any("m.reason")), _any("r.reason"), _texts("m.reason"), ids=_codes),
    "address": Meaning(_address, _any("r.address_id", address_ids), _addresses("m.address"), ids=address_ids),
    "original_address": Meaning(
        _live(_any("m.original_address_id", address_ids)), files=_addresses("m.original_address"), ids=address_ids
    ),
    "group": Meaning(
        _live(_any("m.group_id", with_members)),
        _any("r.group_id", with_members),
        lambda term, _: is_one_of("m.group_id", with_members(term.values)),
        ids=with_members,
    ),
    "failure": Meaning(groups=_groups_of_text),
    "group_owner": Meaning(groups=lambda names, _: _groups_annotated(_owned_by(names))),
    "group_tag": Meaning(groups=lambda tags, _: _groups_annotated(_tagged_with(tags))),
    "snoozed": Meaning(groups=_groups_snoozed),
    "candidate": Meaning(_candidate, files=lambda term, _: "m.candidate" if term.values[0] else "NOT m.candidate"),
    "confirmation": Meaning(_confirmation),
    "held": Meaning(_held),
    "error": Meaning(_error, files=_error_in_files, are_files_near=True),
    "destination": Meaning(_destination, files=_destination_in_files),
    "consumer_version": Meaning(_consumer_version),
    "conversation_id": Meaning(_envelope("conversation_id"), _any("r.conversation_id"), _texts("m.conversation_id")),
    "message_id": Meaning(_envelope("message_id"), _any("r.message_id"), _texts("m.message_id")),
    "owner": Meaning(_owner, files=_owner_in_files),
    "tag": Meaning(
        lambda term, _: _message_annotated(_tagged_with(term.values)),
        files=lambda term, _: spark_sql.has_element("tags", term.values),
    ),
    "header": Meaning(_header, files=lambda term, _: is_one_of(spark_sql.member("headers", term.name), term.values)),
    "key": Meaning(
        _live(_key(Sql("m.id"))),
        _key(Sql("r.id")),
        lambda term, _: is_one_of(spark_sql.member("keys", term.name), term.values),
    ),
    "received_at": _at("received_at", _RECEIVED),
    "failed_at": _at("failed_at", _FAILED),
    "age": _since("received_at", _RECEIVED),
    "failure_age": _since("failed_at", _FAILED),
    "attempts": Meaning(
        _live(_compared(Sql("m.attempt_number"))),
        files=lambda term, _: f"m.attempt_number {term.operator} {int(term.values[0])}",
    ),
    FREE: Meaning(_word, _word_in_index, _word_in_files, are_files_near=True),
}


def is_content(field: str, principal: Principal) -> bool:
    """Return whether a field compares what may be masked for the reader, so that it is searched in the clear only.

    A word without a field is not: it compares ids there, and nothing else.
    """
    keys = {rule.key for rule in masks_of(principal).rules}
    return field in ("error", "header", "key") or (field in ("conversation_id", "message_id") and field in keys)


def not_searched(message_filter: MessageFilter, principal: Principal) -> list[str]:
    """Return the patterns of the addresses that are left out: what a filter asks for is masked there for the reader.

    A pattern that covers nothing in the reader's scope is not named.
    """
    asks = {term.field for term in message_filter.terms}
    if not asks & {FREE, "failure", *DEEP} and not any(is_content(field, principal) for field in asks):
        return []
    matches = sorted({rule.match for rule in masks_of(principal).rules})
    visible = visible_ids(principal)
    return matches if visible is None else [one for one in matches if not set(visible).isdisjoint(address_ids([one]))]


def is_about_groups(field: str) -> bool:
    """Return whether a field says something of failure groups as such."""
    return field in MEANINGS and MEANINGS[field].groups is not None


def as_groups(term: Term, principal: Principal) -> Term:
    """Return a term about failure groups as one of `group`, with the ids that people see; any other as it is."""
    meaning = MEANINGS.get(term.field)
    if meaning is None or meaning.groups is None:
        return term
    return Term("group", tuple(sorted(set(meaning.groups(term.values, principal)))), negated=term.negated)


def fields_known(dialect: str) -> set[str]:
    """Return the fields that have a meaning in a dialect: `live`, `index`, or `files` without what is only near."""
    return {
        field
        for field, meaning in MEANINGS.items()
        if meaning.groups or (getattr(meaning, dialect) and not (dialect == "files" and meaning.are_files_near))
    }
