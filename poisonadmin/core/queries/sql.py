"""SQL statements, and parts of them, as values: the text and its parameters together.

`psycopg.sql.Composed` is not it: that writes values into the text as literals, for which it needs a connection, so its
statements can be neither shown nor compared in a doctest, and Django's cursor is to have text and parameters apart.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")


@dataclass(frozen=True, init=False)
class Sql:
    """Text with `%s` for each of `parameters`, as a cursor takes them: `cursor.execute(*statement)`.

    The text that it is made of is written in the program. Braces in it name parts, and are doubled where they are to
    stay; a part that is an Sql is put in with its parameters, and any other value becomes a parameter.

    >>> on = Sql("m.address_id = ANY({ids})", ids=[1, 2])
    >>> Sql("SELECT id FROM message m WHERE {on} AND note LIKE '%x' AND state = {state}", on=on, state="NDLV")
    Sql(text="SELECT id FROM message m WHERE m.address_id = ANY(%s) AND note LIKE '%%x' AND state = %s", \
parameters=([1, 2], 'NDLV'))
    """

    text: str
    parameters: tuple[Any, ...]

    def __init__(self, text: str, /, **parts: Any) -> None:
        """Raise KeyError where a part that the text names is not given."""
        texts: list[str] = []
        parameters: list[Any] = []
        for literal, name, _, _ in Formatter().parse(text):
            texts.append(literal.replace("%", "%%"))
            if name is None:
                continue
            part = parts[name]
            texts.append(part.text if isinstance(part, Sql) else "%s")
            parameters += part.parameters if isinstance(part, Sql) else [part]
        _set(self, "".join(texts), parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.text, self.parameters))

    def __str__(self) -> str:
        """Return the text of what has no parameters; of what has some it would be half of it."""
        if self.parameters:
            raise TypeError(f"{self.text!r} has parameters.")
        return self.text

    def __bool__(self) -> bool:
        return bool(self.text)

    def __add__(self, other: "Sql") -> "Sql":
        """Return both, with a blank between."""
        return join(" ", (self, other))

    @property
    def negated(self) -> "Sql":
        """The condition that this one does not hold: not so, or unknown."""
        return Sql("({it}) IS NOT TRUE", it=self)


def raw(text: str, parameters: Iterable[Any] = ()) -> Sql:
    """Return a text that has `%s` for each parameter already."""
    return _set(object.__new__(Sql), text, parameters)


def named_sql(text: str, /, **parts: Sql | float) -> Sql:
    """Return a text that takes its parameters by name, as do its parts, which stand in place of its braces.

    For statements that are made once, and executed with the values of each call: `cursor.execute(str(_MOVE), values)`.
    Nothing of the text changes but its braces: a `%` is written twice.

    >>> str(named_sql("SELECT id FROM message WHERE {on} AND tags = '{{}}'", on=raw("id = ANY(%(ids)s)")))
    "SELECT id FROM message WHERE id = ANY(%(ids)s) AND tags = '{}'"
    """
    return raw(text.format_map(parts))


def _set(sql: Sql, text: str, parameters: Iterable[Any]) -> Sql:
    object.__setattr__(sql, "text", text)
    object.__setattr__(sql, "parameters", tuple(parameters))
    return sql


def join(separator: str, parts: Iterable[Sql]) -> Sql:
    """Return the parts with `separator` between.

    >>> join(", ", [Sql("1"), Sql("{n}", n=2)])
    Sql(text='1, %s', parameters=(2,))
    """
    some = tuple(parts)
    return raw(separator.join(part.text for part in some), [one for part in some for one in part.parameters])


def all_of(conditions: Iterable[Sql]) -> Sql:
    """Return the condition that all hold; TRUE where there are none.

    >>> all_of([Sql("a OR b"), Sql("c")]).text, all_of([]).text
    ('(a OR b) AND (c)', 'TRUE')
    """
    return join(" AND ", map(_enclosed, conditions)) or TRUE


def any_of(conditions: Iterable[Sql]) -> Sql:
    """Return the condition that one holds; FALSE where there are none.

    >>> any_of([Sql("a"), Sql("b")]).text, any_of([Sql("a")]).text
    ('((a) OR (b))', '(a)')
    """
    some = tuple(conditions)
    either = join(" OR ", map(_enclosed, some)) or FALSE
    return _enclosed(either) if len(some) > 1 else either


def all_given(conditions: Mapping[str, Any]) -> Sql:
    """Return the conditions that have a value (`{"… = {value}": value or None}`), joined by AND.

    >>> all_given({"a = {value}": 1, "b = {value}": None})
    Sql(text='(a = %s)', parameters=(1,))
    """
    return all_of(Sql(text, value=value) for text, value in conditions.items() if value is not None)


def _enclosed(part: Sql) -> Sql:
    return Sql("({part})", part=part)


def name(text: str) -> Sql:
    """Return the name of a table or column, which may have that of its table before it. Raise ValueError."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a column.")
    return raw(text)


def names(texts: Iterable[str]) -> Sql:
    """Return names with commas between."""
    return join(", ", map(name, texts))


TRUE = Sql("TRUE")
FALSE = Sql("FALSE")
# A part that is left out.
EMPTY = Sql("")
