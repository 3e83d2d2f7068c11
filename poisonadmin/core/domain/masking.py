"""Masking: which parts of messages at which addresses a role may not read, and what it reads instead.

A rule names addresses by a pattern, and one JSON path of bodies, header, business key or regular expression; one that
names none of these is about everything in these messages. What cannot be taken apart is masked whole, and so is text
that may quote what is masked: an error, a stack, an answer.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from poisonadmin.core.domain import strict_json
from poisonadmin.core.domain.addresses import matches
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.json_path import EACH, InvalidPath, Path, Step, parse_path
from poisonadmin.core.domain.strict_json import InvalidJson, Number

# A larger body is masked whole.
MAX_BODY_BYTES = 1024 * 1024
MARK = re.compile(r"(\[masked:[0-9a-f]{8}\])")
# Headers that hold what a consumer or a broker said of a failure.
_QUOTING_HEADER = re.compile("exception|stack|error", re.IGNORECASE)
_NAMES_BROKER = "broker"
Row = TypeVar("Row")


class Masked(PoisonAdminError):
    """Raised when what somebody wants needs what is masked for them."""

    code = "masked"
    status = 403


@dataclass(frozen=True)
class MaskInForce:
    """A rule; of `json_path`, `header`, `key` and `regex` one is set at most. `allowed_roles` read in the clear."""

    match: str
    json_path: str = ""
    header: str = ""
    key: str = ""
    regex: str = ""
    allowed_roles: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        """True for a rule about everything in its messages."""
        return not (self.json_path or self.header or self.key or self.regex)


@lru_cache(maxsize=256)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


@dataclass(frozen=True)
class Masks:
    """The rules that hold for one reader, at any address or, from `at`, at some; false where there are none.

    `secret` keys the hashes. `address_ids`: of all addresses that a rule is about. `groups`: the failure groups that
    hold a failure at one of these. `sources`: JSON paths and headers that business keys are taken from, by the key's
    name; other keys are unknown.
    """

    secret: bytes = field(default=b"", repr=False)
    rules: tuple[MaskInForce, ...] = ()
    address_ids: tuple[int, ...] = ()
    groups: frozenset[int] = frozenset()
    sources: Mapping[str, Sequence[tuple[str, Path]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether anything is masked."""
        return bool(self.rules)

    def at(self, *addresses: str | None) -> "Masks":
        """Return what holds for a message that is, or was, at one of these addresses."""
        known = [address for address in addresses if address]
        rules = tuple(rule for rule in self.rules if any(matches(rule.match, address) for address in known))
        return replace(self, rules=rules)

    @cached_property
    def _is_whole(self) -> bool:
        return any(rule.is_whole for rule in self.rules)

    @cached_property
    def _paths(self) -> list[Path]:
        return [parse_path(rule.json_path) for rule in self.rules if rule.json_path]

    @cached_property
    def _headers(self) -> set[str]:
        return {rule.header.lower() for rule in self.rules if rule.header}

    @cached_property
    def _keys(self) -> set[str]:
        return {rule.key for rule in self.rules if rule.key}

    @cached_property
    def _regexes(self) -> list[re.Pattern[str]]:
        return [_compiled(rule.regex) for rule in self.rules if rule.regex]

    def mark(self, value: str | bytes) -> str:
        """Return what is read in place of a value: the same for the same value."""
        raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        return f"[masked:{hmac.new(self.secret, raw, hashlib.sha256).hexdigest()[:8]}]"

    @property
    def salt(self) -> str:
        """The key of the hashes that statements of reports make: they can be read where statements are logged."""
        return hmac.new(self.secret, b"reports", hashlib.sha256).hexdigest()[:16]

    def _searched(self, text: str) -> str:
        """Return a text with what the regular expressions find masked, but for what is masked already."""
        for regex in self._regexes:
            parts = MARK.split(text)
            parts[::2] = [regex.sub(lambda found: self.mark(found[0]) if found[0] else "", part) for part in parts[::2]]
            text = "".join(parts)
        return text

    def text(self, text: str | None) -> str | None:
        """Return a text that may quote a message: masked whole, unless the rules are regular expressions only."""
        if not text or not self.rules:
            return text
        return self._searched(text) if all(rule.regex for rule in self.rules) else self.mark(text)

    def title(self, group_id: int | None, title: str) -> str:
        """Return the title of a failure group, whose failures are at any address."""
        return self.text(title) or title if group_id in self.groups else title

    def body(self, body: bytes) -> bytes:
        """Return a body with its masked parts."""
        if not body or not (self._is_whole or self._paths or self._regexes):
            return body
        if self._is_whole or len(body) > MAX_BODY_BYTES:
            return self.mark(body).encode()
        try:
            document = strict_json.loads(body, exact=True, most_values=len(body))
            for path in self._paths:
                document = self._at(document, path)
            text = strict_json.dumps_exact(self._leaves(document), most_bytes=4 * MAX_BODY_BYTES).decode()
        except InvalidJson:
            try:
                text = "" if self._paths else body.decode()
            except UnicodeDecodeError:
                text = ""
            if not text:
                return self.mark(body).encode()
        return self._searched(text).encode()

    def _at(self, value: Any, path: Path) -> Any:
        """Return a JSON value with what is at the path masked; what the path cannot be followed into is masked, too."""
        if value is None:
            return None
        if not path:
            return self._value(value)
        step, *rest = path
        if isinstance(value, dict) and isinstance(step, str):
            return value | {step: self._at(value[step], tuple(rest))} if step in value else value
        if isinstance(value, list) and not isinstance(step, str):
            chosen = range(len(value)) if step is EACH else [step]
            return [self._at(one, tuple(rest)) if place in chosen else one for place, one in enumerate(value)]
        return self._value(value)

    def _value(self, value: Any) -> str:
        if isinstance(value, str):
            return value if MARK.fullmatch(value) else self.mark(value)
        return self.mark(strict_json.dumps_exact(value, most_bytes=4 * MAX_BODY_BYTES))

    def _leaves(self, value: Any) -> Any:
        """Return a JSON value whose texts, numbers and names the regular expressions were tried on, one by one."""
        if not self._regexes:
            return value
        if isinstance(value, dict):
            return {self._searched(name): self._leaves(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._leaves(one) for one in value]
        if isinstance(value, Number):
            searched = self._searched(value.text)
            return value if searched == value.text else searched
        return self._searched(value) if isinstance(value, str) else value

    def header(self, name: str, value: Any) -> Any:
        """Return the value of a header."""
        if not self.rules:
            return value
        if self._is_whole or name.lower() in self._headers:
            return self.mark(str(value))
        if _QUOTING_HEADER.search(name):
            return self.text(str(value))
        return self._searched(value) if isinstance(value, str) else value

    def header_bytes(self, headers: bytes) -> bytes:
        """Return the headers of a message, as they are stored."""
        try:
            found = json.loads(bytes(headers))
        except ValueError:
            return b"{}"
        return json.dumps({name: self.header(name, value) for name, value in found.items()}).encode()

    def key(self, name: str, value: str | None) -> str | None:
        """Return the value of a business key. One that may have been taken from what is masked is masked, too."""
        if not value or not self.rules:
            return value
        if self._is_whole or name in self._keys or self._is_taken_from_masked(name):
            return self.mark(value)
        return self._searched(value)

    def own(self, name: str, value: str) -> str:
        """Return a field of a message itself; its bookmark is often its id, and masked with it."""
        is_named = name in self._keys or (name == "bookmark" and "message_id" in self._keys)
        return self.mark(value) if is_named else value

    def _is_taken_from_masked(self, name: str) -> bool:
        if not (self._paths or self._headers):
            return False
        return not self.sources.get(name) or any(
            header.lower() in self._headers if header else any(_overlap(path, one) for one in self._paths)
            for header, path in self.sources[name]
        )

    def hides(self, column: str) -> bool:
        """Return whether something is masked in a field: `header.<name>`, `key.<name>`, `payload.<path>`, or a text."""
        kind, _, name = column.partition(".")
        if not self.rules:
            return False
        if self._is_whole or self._regexes:
            return kind in ("header", "key", "payload") or column in QUOTING or column in self._keys
        if kind == "header":
            return name.lower() in self._headers or _QUOTING_HEADER.search(name) is not None
        if kind == "key":
            return name in self._keys or self._is_taken_from_masked(name)
        if kind == "payload":
            return any(not name or _may_overlap(path, name) for path in self._paths)
        return column in QUOTING or column in self._keys

    def transport(self, value: Any, name: str = "") -> Any:
        """Return what a broker reported of a message; bytes in it are masked whole."""
        if not self.rules or value is None or isinstance(value, bool) or name == _NAMES_BROKER:
            return value
        if isinstance(value, Mapping) and set(value) != {"base64"}:
            return {one: self.transport(inner, one) for one, inner in value.items()}
        if isinstance(value, list):
            return [self.transport(one, name) for one in value]
        if isinstance(value, str) or self._is_whole:
            return self.header(name, value)
        is_masked = name.lower() in self._headers or isinstance(value, Mapping)
        return self.mark(json.dumps(value, sort_keys=True)) if is_masked else value

    def row(self, row: Row) -> Row:
        """Return a row with its fields masked, by the names that they have in every row."""
        changed: dict[str, Any] = {}
        for one in fields(row):  # type: ignore[arg-type]
            value = getattr(row, one.name)
            if value is None:
                continue
            if one.name in TEXTS:
                changed[one.name] = self.text(value)
            elif one.name in BYTES:
                changed[one.name] = (self.text(bytes(value).decode("latin-1")) or "").encode("latin-1")
            elif one.name == "business_keys":
                changed[one.name] = {key: self.key(key, text) for key, text in value.items()}
            elif one.name in ("header_bytes", "transport"):
                changed[one.name] = getattr(self, one.name)(value)
            elif isinstance(value, str):
                changed[one.name] = self.own(one.name, value)
        return replace(row, **changed)  # type: ignore[type-var]


# Fields of rows that may quote a message.
TEXTS = frozenset({"error_message", "stack", "title", "group_title", "why", "detail"})
BYTES = frozenset({"response", "output", "raw_start"})


# Columns of reports that may quote a message.
QUOTING = frozenset({"failure_group", "failure", "error_message", "why"})


def _may_overlap(path: Path, name: str) -> bool:
    try:
        return _overlap(path, parse_path(name))
    except InvalidPath:
        return True


def _overlap(one: Path, other: Path) -> bool:
    """Return whether one of two places in a document is in the other, or may be."""

    def may_be_same(step: Step, that: Step) -> bool:
        return step == that or (EACH in (step, that) and not isinstance(step, str) and not isinstance(that, str))

    return all(may_be_same(step, that) for step, that in zip(one, other, strict=False))
