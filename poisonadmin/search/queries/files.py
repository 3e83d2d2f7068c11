"""A message filter as Spark's SQL over `m`, a row of the messages in the archive's files."""

from poisonadmin.search.domain.filters import MessageFilter
from poisonadmin.search.domain.payload_words import DEEP
from poisonadmin.search.domain.words import FREE
from poisonadmin.search.queries.meanings import MEANINGS, SearchReader, as_groups, on_addresses

_NAMED = {FREE: "words without a field"}


def in_files(message_filter: MessageFilter, reader: SearchReader, *, is_exact: bool) -> tuple[list[str], list[str]]:
    """Return the conditions that hold together, with that of the scope, and what cannot be asked, as people call it.

    `is_exact`: what finds less in the files than among live messages cannot be asked either. Terms about payloads are
    left to who reads them.
    """
    conditions, outside = [], []
    for term in (as_groups(one, reader.principal) for one in message_filter.terms if one.field not in DEEP):
        meaning = MEANINGS[term.field]
        is_known = meaning.files is not None and not (is_exact and meaning.are_files_near)
        condition = meaning.files(term, reader) if is_known and meaning.files else None
        if condition is None:
            shown = _NAMED.get(term.field, term.field)
            outside.append(f"!{shown}" if term.negated and is_known else shown)
        else:
            # As in the database: NOT of an unknown would hide rows.
            conditions.append(f"NOT coalesce({condition}, FALSE)" if term.negated else f"({condition})")
    scopes = (on_addresses("m.address", patterns) for patterns in reader.principal.patterns if patterns)
    return [*conditions, *(f"({scope})" for scope in scopes)], outside
