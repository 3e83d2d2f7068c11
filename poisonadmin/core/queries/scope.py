"""Addresses and destinations by name, pattern and scope, as the few ids that the big tables are searched by."""

import re
from collections.abc import Sequence

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.addresses import ANY_WORDS, ONE_WORD, is_pattern
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import FALSE, TRUE, Sql, name

_PLAIN = re.compile(r"[A-Za-z0-9]")


def address_ids(patterns: Sequence[str]) -> list[int]:
    """Return the ids of the addresses that any of `patterns` (or names) covers, rising."""
    names = [pattern for pattern in patterns if not is_pattern(pattern)]
    expressions = [pattern_regex(pattern) for pattern in patterns if is_pattern(pattern)]
    # Named addresses use the unique index; only patterns read the whole (small) table.
    return fetch_values(
        "SELECT id FROM address WHERE name = ANY(%s) UNION "
        "SELECT id FROM address WHERE cardinality(%s::text[]) > 0 AND name || '.' ~ ANY(%s::text[]) ORDER BY 1",
        [names, expressions, expressions],
    )


def visible_ids(principal: Principal) -> list[int] | None:
    """Return the ids of the addresses in the principal's scope, None where that is all of them."""
    if principal.sees_everything:
        return None
    scopes = [set(address_ids(patterns)) for patterns in principal.patterns if patterns]
    return sorted(set.intersection(*scopes))


def addresses_in_scope(principal: Principal, patterns: Sequence[str] = ()) -> list[int] | None:
    """Return the ids of the visible addresses that any of `patterns` covers (none: all); None where that is all."""
    visible = visible_ids(principal)
    if not patterns:
        return visible
    wanted = address_ids(patterns)
    return wanted if visible is None else sorted(set(wanted) & set(visible))


def scope_condition(principal: Principal, column: str = "m.address_id", patterns: Sequence[str] = ()) -> Sql:
    """Return the condition that `column` is one of `addresses_in_scope`."""
    ids = addresses_in_scope(principal, patterns)
    return Sql("TRUE") if ids is None else Sql("{column} = ANY({ids})", column=name(column), ids=ids)


def addresses_holding(text: str) -> list[int]:
    """Return the ids of the addresses whose name holds `text`, in any case."""
    return fetch_values("SELECT id FROM address WHERE strpos(lower(name), lower(%s)) > 0", [text])


def pattern_regex(pattern: str) -> str:
    """Return PostgreSQL's regular expression for the same addresses, each written with a dot after every word.

    >>> pattern_regex("orders.*.#")
    '^orders\\\\.[^.]+\\\\.([^.]+\\\\.)*$'
    """
    return "^" + "".join(_word(word) for word in pattern.split(".")) + "$"


def _word(word: str) -> str:
    if word == ANY_WORDS:
        return r"([^.]+\.)*"
    if word == ONE_WORD:
        return r"[^.]+\."
    escaped = "".join(
        character if _PLAIN.match(character) or not character.isascii() else "\\" + character for character in word
    )
    return escaped + r"\."


def destinations_seen(principal: Principal, column: str) -> Sql:
    """Return the condition that `column` is the id of a destination in scope."""
    if principal.sees_everything:
        return TRUE
    owners = fetch_rows("SELECT id, owner FROM destination")
    ids = [destination_id for destination_id, owner in owners if principal.covers(owner)]
    return Sql("{column} = ANY({ids})", column=name(column), ids=ids)


def destination_names_seen(principal: Principal) -> list[str] | None:
    """Return the names of the destinations in scope; None: all are."""
    if principal.sees_everything:
        return None
    return [one for one, owner in fetch_rows("SELECT name, owner FROM destination") if principal.covers(owner)]


def addresses_delivering_to(names: Sequence[str], principal: Principal) -> list[int]:
    """Return the ids of the addresses that deliver to one of these destinations, as far as those are in scope."""
    return fetch_values(
        Sql(
            """SELECT a.id FROM address a JOIN destination d ON d.id = a.destination_id
            WHERE d.name = ANY({names}) AND {seen} ORDER BY 1""",
            names=list(names),
            seen=destinations_seen(principal, "d.id"),
        )
    )


def own_or_shared(principal: Principal, own: Sql, *, or_of_user: Sql = FALSE) -> Sql:
    """Return the condition that something kept under a name is the principal's own, or shared by others.

    `or_of_user`: it was kept by a token or session of the same user. A filter can name addresses: who is limited to
    some sees nothing of others.
    """
    return Sql(
        "({own} OR {sees_all} AND (is_shared OR {or_of_user}))",
        own=own,
        sees_all=principal.sees_everything,
        or_of_user=or_of_user,
    )
