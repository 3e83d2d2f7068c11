"""Payloads and stack traces made fit to look at. Nothing in them is trusted.

A payload is shown as a tree of JSON, a text, or bytes in hexadecimal; what is foreign in a trace is folded.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from poisonadmin.core.domain.sanitising import visible
from poisonadmin.groups.domain.causes import MOST
from poisonadmin.groups.domain.stacks import MAX_STACK_CHARS, first_application_frame

MAX_SHOWN_BYTES = 256 * 1024
MAX_HEX_BYTES = 4 * 1024
MAX_NODES = 4000
MAX_DEPTH = 60
MAX_TEXT_CHARS = 4000
MAX_OPENED = 30
# The closing quotation mark is optional so that an unclosed string is read once, not once a quotation mark in it.
_OUTSIDE_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True)
class TreeNode:
    """One line of the tree. `kind`: open, close, string, number, word (true, false, null) or more (the rest is cut).

    An `open` has a `text` such as `3 members`; `opened` says whether it starts unfolded. `is_shared`: most of the
    payloads that it is shown beside have the same at this `path`.
    """

    kind: str
    key: str | None = None
    text: str = ""
    opened: bool = False
    path: tuple[str, ...] = ()
    is_shared: bool = False


class NoTree(Exception):
    """Raised when a payload is no JSON that a page can show as a tree; the text says why."""


class _Literal(str):
    """A number exactly as it was written: it may have five thousand digits, or more precision than a float."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object in order, repeated keys included."""


def tree(payload: bytes) -> list[TreeNode]:
    """Return the payload's JSON as lines of a tree, at most 4,000; raise Unfit."""
    if _depth(payload) > MAX_DEPTH:
        raise NoTree(f"nested deeper than {MAX_DEPTH} levels")
    try:
        found = json.loads(
            payload.decode("utf-8-sig"),
            object_pairs_hook=_Members,
            parse_int=_Literal,
            parse_float=_Literal,
            parse_constant=_Literal,
        )
    except UnicodeDecodeError:
        raise NoTree("not UTF-8 text") from None
    except (ValueError, RecursionError):
        raise NoTree("not JSON") from None
    nodes: list[TreeNode] = []
    for node in _lines(found, ()):
        if len(nodes) >= MAX_NODES:
            # The open branches still have to be closed, or the page's markup would not nest.
            depth = sum((line.kind == "open") - (line.kind == "close") for line in nodes)
            nodes.append(
                TreeNode(
                    "more", text=f"The rest is left out after {MAX_NODES:,} lines; download the payload to see it."
                )
            )
            nodes.extend(TreeNode("close") for _ in range(depth))
            break
        nodes.append(node)
    return nodes


def tree_of_several(payloads: Mapping[int, bytes]) -> tuple[int, list[TreeNode]] | None:
    """Return the number and the tree of the first payload that has one, in which is marked what most of them share.

    >>> found = tree_of_several({9: b"text", 8: b'{"a": 1, "b": 2}', 7: b'{"a": 1, "b": 3}'})
    >>> found[0], [(node.key, node.is_shared) for node in found[1]][1:3]
    (8, [('a', True), ('b', False)])
    """
    trees: dict[int, list[TreeNode]] = {}
    for number, payload in payloads.items():
        with suppress(NoTree):
            trees[number] = tree(payload)
    if not trees:
        return None
    each = ({(node.path, node.text) for node in nodes if node.path} for nodes in trees.values())
    leaves = Counter(leaf for found in each for leaf in found)
    least = max(MOST * len(trees), 2)
    first, nodes = next(iter(trees.items()))
    return first, [replace(node, is_shared=leaves[node.path, node.text] >= least) for node in nodes]


def text(payload: bytes) -> str | None:
    """Return the payload as text fit to look at; None when it is not UTF-8."""
    # The cap may have cut the last character in two.
    for dropped in range(4 if len(payload) == MAX_SHOWN_BYTES else 1):
        try:
            return visible(payload[: len(payload) - dropped].decode("utf-8-sig"))
        except UnicodeDecodeError:
            continue
    return None


def hexadecimal(payload: bytes) -> str:
    """Return the first 4 kB as offset, bytes and characters.

    >>> hexadecimal(b"PoisonAdmin\\x00")
    '00000000  50 6f 69 73 6f 6e 41 64  6d 69 6e 00              PoisonAdmin.'
    """
    lines = []
    for offset in range(0, min(len(payload), MAX_HEX_BYTES), 16):
        row = payload[offset : offset + 16]
        halves = "  ".join(" ".join(f"{byte:02x}" for byte in row[at : at + 8]) for at in (0, 8) if row[at : at + 8])
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{offset:08x}  {halves:<49} {letters}")
    return "\n".join(lines)


def _depth(payload: bytes) -> int:
    depth = deepest = 0
    for found in _OUTSIDE_STRINGS.finditer(payload):
        mark = found[0]
        if mark in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif mark in (b"]", b"}"):
            depth -= 1
    return deepest


def _lines(value: Any, path: tuple[str, ...]) -> Iterator[TreeNode]:
    shown, level = _cut(visible(path[-1])) if path else None, len(path)
    if isinstance(value, _Members):
        yield TreeNode(
            "open",
            shown,
            f"{{ {_many(len(value), 'member')} }}",
            level == 0 or (level == 1 and len(value) <= MAX_OPENED),
        )
        for name, member in value:
            yield from _lines(member, (*path, name))
        yield TreeNode("close")
    elif isinstance(value, list):
        yield TreeNode("open", shown, f"[ {_many(len(value), 'item')} ]", level < 2 and len(value) <= MAX_OPENED)
        for position, item in enumerate(value):
            yield from _lines(item, (*path, str(position)))
        yield TreeNode("close")
    elif isinstance(value, _Literal):
        yield TreeNode("number", shown, _cut(value), path=path)
    elif isinstance(value, str):
        yield TreeNode("string", shown, f'"{_cut(visible(value))}"', path=path)
    else:
        yield TreeNode("word", shown, json.dumps(value), path=path)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cut(found: str) -> str:
    return found if len(found) <= MAX_TEXT_CHARS else f"{found[:MAX_TEXT_CHARS]}… ({len(found):,} characters)"


MAX_LINES = 400


@dataclass(frozen=True)
class StackPart:
    """Lines that stand together. `kind`: own (a frame of the application), foreign (folded), text (no frame)."""

    kind: str
    lines: tuple[str, ...]


def folded(stack: str) -> list[StackPart]:
    """Return the trace in parts, at most 400 lines of it."""
    lines = visible(stack[:MAX_STACK_CHARS]).splitlines()[:MAX_LINES]
    kinds = _kinds(lines)
    parts = []
    for kind, run in groupby(zip(kinds, lines, strict=True), key=lambda pair: pair[0]):
        parts.append(StackPart(kind, tuple(line for _, line in run)))
    return parts


def _kinds(lines: list[str]) -> list[str]:
    kinds: list[str] = []
    for line in lines:
        if _is_frame(line):
            kinds.append("own" if first_application_frame(line) else "foreign")
        elif kinds and line.startswith("    ") and kinds[-1] != "text":
            # The source line that Python prints below a frame.
            kinds.append(kinds[-1])
        else:
            kinds.append("text")
    return kinds


def _is_frame(line: str) -> bool:
    start = line.lstrip()
    return start.startswith(("at ", 'File "')) or (start.startswith("... ") and start.endswith("more"))
