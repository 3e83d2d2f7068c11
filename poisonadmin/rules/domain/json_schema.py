"""JSON Schema, draft 2020-12, kept from doing harm: no reference out of the document, no regex that backtracks, and a
bound on how often one value of a payload is looked at.

The compiler is native code and cannot be interrupted, so what it might never come back from is refused before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.strict_json import MAX_NESTING, dumps, loads

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_SUBSCHEMAS = 1000
# How many subschemas may be asked about one and the same value.
MAX_ASKED_AT_ONCE = 200

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_MAPS = ("dependentSchemas",)
_REFUSED = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary")

Counts = dict[int, int]
Key = str | int


class InvalidSchema(PoisonAdminError):
    """Raised when a text is not a JSON Schema, or is one that is refused."""

    code = "invalid_schema"


@dataclass
class _SchemaNode:
    """A subschema: what it asks about the same value, about a member by name or place, and about any member else."""

    in_place: list[int] = field(default_factory=list)
    members: dict[Key, list[int]] = field(default_factory=dict)
    rest: dict[type, list[int]] = field(default_factory=lambda: {str: [], int: []})
    always: dict[type, list[int]] = field(default_factory=lambda: {str: [], int: []})


def compile_schema(schema: Any) -> Callable[[Any], bool]:
    """Return whether a JSON value is valid under the schema. Raise InvalidSchema.

    >>> compile_schema({"type": "object", "required": ["id"]})({"id": 1})
    True
    """
    return _compiled(dumps(schema))


@lru_cache(maxsize=256)
def _compiled(raw: bytes) -> Callable[[Any], bool]:
    import jsonschema_rs  # 4 MiB, which most processes never need

    schema = loads(raw)
    _check_bounds(schema)
    regex = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 22)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schema, pattern_options=regex, offline=True, validate_formats=False
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchema(f"The schema cannot be used: {str(error).splitlines()[0][:300]}.") from None
    is_valid: Callable[[Any], bool] = validator.is_valid
    return is_valid


def _check_bounds(schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    nodes = _Graph(schema).nodes
    closures: dict[int, Counts] = {}
    for place in range(len(nodes)):
        _closure(nodes, place, closures, ())
    counts = closures[0]
    for _ in range(MAX_NESTING):
        if sum(counts.values()) > MAX_ASKED_AT_ONCE:
            raise InvalidSchema(f"More than {MAX_ASKED_AT_ONCE} subschemas may have to be asked about one value.")
        deeper = _one_deeper(nodes, closures, counts)
        if deeper == counts:
            return
        counts = deeper


def _closure(nodes: list[_SchemaNode], place: int, known: dict[int, Counts], behind: tuple[int, ...]) -> Counts:
    """Return how often each subschema is asked about a value that `place` is asked about."""
    if place in known:
        return known[place]
    if place in behind:
        raise InvalidSchema("A subschema refers to itself without going deeper into the document.")
    if len(behind) > MAX_NESTING:
        raise InvalidSchema(f"References follow one another more than {MAX_NESTING} deep.")
    counts: Counts = {place: 1}
    for inner in nodes[place].in_place:
        _add(counts, _closure(nodes, inner, known, (*behind, place)), 1)
    if sum(counts.values()) > MAX_ASKED_AT_ONCE:
        raise InvalidSchema(f"More than {MAX_ASKED_AT_ONCE} subschemas may have to be asked about one value.")
    known[place] = counts
    return counts


def _one_deeper(nodes: list[_SchemaNode], closures: dict[int, Counts], counts: Counts) -> Counts:
    """Return the most that each subschema may be asked about a member, given what is asked about its parent."""
    most: Counts = {}
    for kind in (str, int):
        rest: Counts = {}
        keys: dict[Key, Counts] = {}
        for place, times in counts.items():
            node = nodes[place]
            common = _sum(closures, node.always[kind], times)
            _add(rest, common, 1)
            _add(rest, _sum(closures, node.rest[kind], times), 1)
            for key, inner in node.members.items():
                if isinstance(key, kind):
                    # A named member is none of the rest.
                    of_key = keys.setdefault(key, {})
                    _add(of_key, _sum(closures, inner, times), 1)
                    _add(of_key, _sum(closures, node.rest[kind], -times), 1)
        for extra in ({}, *keys.values()):
            for place in {*rest, *extra}:
                most[place] = max(most.get(place, 0), rest.get(place, 0) + extra.get(place, 0))
    return {place: times for place, times in most.items() if times > 0}


def _sum(closures: dict[int, Counts], places: list[int], times: int) -> Counts:
    found: Counts = {}
    for place in places:
        _add(found, closures[place], times)
    return found


def _add(counts: Counts, more: Counts, times: int) -> None:
    for place, number in more.items():
        counts[place] = counts.get(place, 0) + number * times


class _Graph:
    """The subschemas of a document and what each asks; the root is node 0. Raise InvalidSchema."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._places: dict[int, int] = {}
        self._anchors: dict[str, Any] = {}
        self.nodes: list[_SchemaNode] = []
        self._find_anchors(root)
        self._read(root)

    def _find_anchors(self, value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(name := value.get("$anchor"), str):
                self._anchors[name] = value
            for inner in value.values():
                self._find_anchors(inner)
        elif isinstance(value, list):
            for inner in value:
                self._find_anchors(inner)

    def _read(self, schema: Any) -> int:
        if id(schema) in self._places:
            return self._places[id(schema)]
        place = len(self.nodes)
        if place >= MAX_SUBSCHEMAS:
            raise InvalidSchema(f"The schema has more than {MAX_SUBSCHEMAS} subschemas.")
        node = _SchemaNode()
        self.nodes.append(node)
        if not isinstance(schema, dict):  # true and false, which ask nothing; or what the compiler will refuse
            return place
        self._places[id(schema)] = place
        self._refuse(schema)
        node.in_place = [self._read(inner) for inner in self._in_place(schema)]
        for name, inner in _mapping(schema, "properties"):
            node.members[name] = [self._read(inner)]
        for index, inner in enumerate(_sequence(schema, "prefixItems")):
            node.members[index] = [self._read(inner)]
        node.rest[str] = self._named(schema, "additionalProperties")
        node.rest[int] = self._named(schema, "items")
        patterns = [self._read(inner) for _, inner in _mapping(schema, "patternProperties")]
        node.always[str] = patterns + self._named(schema, "unevaluatedProperties", "propertyNames")
        node.always[int] = self._named(schema, "contains", "unevaluatedItems")
        return place

    def _named(self, schema: dict[str, Any], *names: str) -> list[int]:
        return [self._read(schema[name]) for name in names if name in schema]

    def _in_place(self, schema: dict[str, Any]) -> Iterator[Any]:
        for name in _IN_PLACE_LISTS:
            yield from _sequence(schema, name)
        for name in _IN_PLACE:
            if name in schema:
                yield schema[name]
        for name in _IN_PLACE_MAPS:
            yield from (inner for _, inner in _mapping(schema, name))
        if "$ref" in schema:
            yield self._referred(schema["$ref"])

    def _refuse(self, schema: dict[str, Any]) -> None:
        for name in _REFUSED:
            if name in schema:
                raise InvalidSchema(f"{name} is not taken: write $ref to a place in this schema.")
        if "$id" in schema and schema is not self._root:
            raise InvalidSchema("$id stands at the root only: references lead to places in this schema.")
        if schema.get("$schema", DRAFT).rstrip("#") != DRAFT:
            raise InvalidSchema(f"$schema must be {DRAFT}, or left out.")

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise InvalidSchema(f"$ref {str(reference)[:80]!r} leads out of the schema: write #/$defs/name.")
        name = unquote(reference[1:])
        if not name:
            return self._root
        if not name.startswith("/"):
            if name not in self._anchors:
                raise InvalidSchema(f"$ref {reference[:80]!r} leads nowhere.")
            return self._anchors[name]
        found: Any = self._root
        for word in name[1:].split("/"):
            key = word.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise InvalidSchema(f"$ref {reference[:80]!r} leads nowhere.") from None
        return found


def _mapping(schema: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    value = schema.get(name)
    return list(value.items()) if isinstance(value, dict) else []


def _sequence(schema: dict[str, Any], name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []
