"""The table of a page: `{% table "Sources" for row in rows %}{% column "Name" %}{{ row.name }}{% endtable %}`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.template import Context, Node, NodeList, TemplateSyntaxError
from django.template.base import FilterExpression, Parser, TextNode, Token, token_kwargs
from django.template.loader import get_template

_NONE = FilterExpression("None", Parser([]))
_TABLE_OPTIONS = {"kind", "wrap", "has_keys", "row_id", "changed", "is_swap"}
_COLUMN_OPTIONS = {"label", "is_hidden", "when", "sort"}


@dataclass(frozen=True)
class Sort:
    """A heading that sorts: where it leads, and the ordering that holds where it is this column's, `-` for falling."""

    link: str
    ordering: str

    @property
    def direction(self) -> str:
        """The value of `aria-sort`."""
        return {"": "none", "-": "descending"}.get(self.ordering[:1], "ascending")


@dataclass(frozen=True)
class TableColumn:
    """A column as a template declares it: its heading, its classes, its options and what its cells hold."""

    heading: FilterExpression
    kinds: FilterExpression
    options: dict[str, FilterExpression]
    cell: NodeList

    def is_shown(self, context: Context) -> bool:
        """Return whether the column is there for this reader: without `when` it always is."""
        return "when" not in self.options or bool(self.options["when"].resolve(context))

    def head(self, context: Context) -> dict[str, Any]:
        """Return what a page shows of the column: in its head, and of each of its cells but the content."""
        heading = self.heading.resolve(context)
        kinds = str(self.kinds.resolve(context)).split()
        is_hidden = bool(self.options.get("is_hidden", _NONE).resolve(context))
        is_tick = "tick" in kinds
        return {
            "heading": heading,
            "is_hidden": is_hidden,
            "ticks_all": is_tick and not is_hidden,
            "head_kinds": " ".join(kind for kind in kinds if kind != "wild"),
            "kinds": " ".join(kinds),
            "sort": self.options.get("sort", _NONE).resolve(context),
            "label": "" if is_tick or is_hidden else self.options.get("label", self.heading).resolve(context),
        }


@dataclass
class TableNode(Node):
    """A table with a row for each item of a sequence, and the columns that its template declares."""

    label: FilterExpression
    names: Sequence[str]
    items: FilterExpression
    options: dict[str, FilterExpression]
    columns: Sequence[TableColumn]

    def render(self, context: Context) -> Any:
        """Draw the table; its rows alone, as templates that replace those on the page, for `is_swap`."""
        columns = [column for column in self.columns if column.is_shown(context)]
        heads = [column.head(context) for column in columns]
        shown = {name: self._option(name, context) for name in ("kind", "wrap", "has_keys", "is_swap")}
        shown |= {"label": self.label.resolve(context), "heads": heads}
        return get_template("web/_table.html").render(shown | {"rows": self._rows(columns, heads, context)})

    def _rows(
        self, columns: Sequence[TableColumn], heads: Sequence[dict[str, Any]], context: Context
    ) -> Iterator[dict[str, Any]]:
        items = list(self.items.resolve(context) or ())
        for position, item in enumerate(items):
            values = dict(zip(self.names, [item] if len(self.names) == 1 else item, strict=True))
            of = {"counter": position + 1, "first": position == 0, "last": position == len(items) - 1}
            with context.push(**values, forloop=of):
                row_id = self._option("row_id", context)
                yield {
                    "id": row_id,
                    "is_changed": row_id is not None and row_id in (self._option("changed", context) or ()),
                    "cells": [(head, column.cell.render(context)) for head, column in zip(heads, columns, strict=True)],
                }

    def _option(self, name: str, context: Context) -> Any:
        return self.options.get(name, _NONE).resolve(context)


def parse_table(parser: Parser, token: Token) -> TableNode:
    """Read a table up to `{% endtable %}`; a column ends where the next one begins.

    `{% table LABEL for NAME in ITEMS %}`, with these options behind it:
    `kind`, `wrap`: classes of the table and of the box around it; `has_keys`: j and k walk along its rows;
    `row_id`: the message that a row is about; `changed`: the messages whose rows stand out;
    `is_swap`: only rows, which replace those of the page.

    `{% column HEADING KINDS %}`, KINDS being classes of its cells, with these options:
    `label`: a shorter heading for small screens; `is_hidden`: the heading is for screen readers alone;
    `when`: the column is there only if this is true; `sort`: a `Sort`, None where it does not sort.
    """
    tag, label, *rest = token.split_contents()
    if "for" not in rest or "in" not in rest:
        raise TemplateSyntaxError(f"{tag}: expected a label, 'for', names, 'in' and what to go through")
    place = rest.index("in")
    names = [name for word in rest[1:place] for name in word.split(",") if name]
    options = _options(tag, rest[place + 2 :], parser, _TABLE_OPTIONS)
    if _trimmed(parser.parse(("column", "endtable"))):
        raise TemplateSyntaxError(f"{tag}: nothing stands before its first column")
    columns = []
    while (part := parser.next_token()).contents != "endtable":
        columns.append(_parse_column(parser, part))
    compile_filter = parser.compile_filter
    return TableNode(compile_filter(label), names, compile_filter(rest[place + 1]), options, columns)


def _parse_column(parser: Parser, token: Token) -> TableColumn:
    tag, heading, *words = token.split_contents()
    kinds = words.pop(0) if words and "=" not in words[0] else '""'
    options = _options(tag, words, parser, _COLUMN_OPTIONS)
    cell = _trimmed(parser.parse(("column", "endtable")))
    return TableColumn(parser.compile_filter(heading), parser.compile_filter(kinds), options, cell)


def _options(tag: str, words: list[str], parser: Parser, known: set[str]) -> dict[str, FilterExpression]:
    options = token_kwargs(words, parser)
    if words or not set(options) <= known:
        raise TemplateSyntaxError(f"{tag}: these are no options of it: {words or set(options) - known}")
    return options


def _trimmed(nodes: NodeList) -> NodeList:
    """Return the nodes without white space at either end."""
    if nodes and isinstance(nodes[0], TextNode):
        nodes[0].s = nodes[0].s.lstrip()
    if nodes and isinstance(nodes[-1], TextNode):
        nodes[-1].s = nodes[-1].s.rstrip()
    return NodeList(node for node in nodes if not isinstance(node, TextNode) or node.s)
