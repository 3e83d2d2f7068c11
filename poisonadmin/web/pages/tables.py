"""The table of a page: `{% table "Sources" for row in rows %}{% column "Name" %}{{ row.name }}{% endtable %}`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.template import Context, Node, NodeList, TemplateSyntaxError
from django.template.base import FilterExpression, Parser, Token, token_kwargs
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

_NONE = FilterExpression("None", Parser([]))
_TABLE_OPTIONS = {"kind", "wrap", "has_keys", "row_id", "changed", "is_swap"}
_COLUMN_OPTIONS = {"label", "is_hidden", "when"}


@dataclass(frozen=True)
class Column:
    """A column as a template declares it: its heading, its classes, its options and what its cells hold."""

    heading: FilterExpression
    kinds: FilterExpression
    options: dict[str, FilterExpression]
    cell: NodeList

    def option(self, name: str, context: Context) -> Any:
        """Return what an option is here, None where it is left out."""
        return self.options.get(name, _NONE).resolve(context)

    def is_shown(self, context: Context) -> bool:
        """Return whether the column is there for this reader: without `when` it always is."""
        return "when" not in self.options or bool(self.option("when", context))

    def head(self, context: Context) -> SafeString:
        """Return the cell of the head: the heading, out of sight where it is hidden, or the box that ticks all rows."""
        heading, is_hidden = self.heading.resolve(context), self.option("is_hidden", context)
        kinds = [kind for kind in str(self.kinds.resolve(context) or "").split() if kind != "wild"]
        if "tick" in kinds and not is_hidden:
            box = '<input type="checkbox" class="form-check-input" data-tick-all aria-label="{}">'
            return format_html('<th class="tick">' + box + "</th>", heading)
        shown = format_html('<span class="visually-hidden">{}</span>', heading) if is_hidden else heading
        return format_html('<th scope="col"{}>{}</th>', _attribute("class", " ".join(kinds)), shown)

    def start(self, context: Context) -> SafeString:
        """Return how each cell begins: with its classes, and the label that stands before it on a small screen."""
        kinds = str(self.kinds.resolve(context) or "")
        has_label = "tick" not in kinds.split() and not self.option("is_hidden", context)
        label = (self.option("label", context) or self.heading.resolve(context)) if has_label else ""
        return format_html("<td{}{}>", _attribute("class", kinds), _attribute("data-label", label))


@dataclass
class Table(Node):
    """A table with a row for each item of a sequence, and the columns that its template declares."""

    label: FilterExpression
    names: Sequence[str]
    items: FilterExpression
    options: dict[str, FilterExpression]
    columns: Sequence[Column]

    def render(self, context: Context) -> SafeString:
        """Draw the table; its rows alone, as templates that replace those on the page, for `is_swap`."""
        columns = [column for column in self.columns if column.is_shown(context)]
        rows = self._rows(columns, context)
        if self._option("is_swap", context):
            return mark_safe("".join(f"<template>{row}</template>" for row in rows))  # noqa: S308
        return context.template.engine.get_template("web/_table.html").render(
            context.new(
                {
                    "label": self.label.resolve(context),
                    "wrap": self._option("wrap", context),
                    "kind": self._option("kind", context),
                    "heads": [column.head(context) for column in columns],
                    "rows": mark_safe("".join(rows)),  # noqa: S308
                }
            )
        )

    def _rows(self, columns: Sequence[Column], context: Context) -> list[str]:
        items = list(self.items.resolve(context) or ())
        cells = [(column.start(context), column.cell) for column in columns]
        rows = []
        with context.push():
            for position, item in enumerate(items):
                context.update(dict(zip(self.names, [item] if len(self.names) == 1 else item, strict=True)))
                context["forloop"] = {
                    "counter": position + 1,
                    "first": position == 0,
                    "last": position == len(items) - 1,
                }
                row = [self._row_start(context)]
                row += [f"{start}{cell.render(context).strip()}</td>" for start, cell in cells]
                rows.append("".join(row) + "</tr>")
                context.pop()
        return rows

    def _row_start(self, context: Context) -> str:
        row_id = self._option("row_id", context)
        is_changed = row_id is not None and row_id in (self._option("changed", context) or ())
        return format_html(
            "<tr{}{}{}{}>",
            _attribute("id", "" if row_id is None else f"m-{row_id}"),
            mark_safe(" data-row") if self._option("has_keys", context) else "",
            _attribute("class", "changed" if is_changed else ""),
            _attribute("hx-swap-oob", "true" if self._option("is_swap", context) else ""),
        )

    def _option(self, name: str, context: Context) -> Any:
        return self.options.get(name, _NONE).resolve(context)


def parse_table(parser: Parser, token: Token) -> Table:
    """Read a table up to `{% endtable %}`; a column ends where the next one begins.

    `{% table LABEL for NAME in ITEMS %}`, with these options behind it:
    `kind`, `wrap`: classes of the table and of the box around it; `has_keys`: j and k walk along its rows;
    `row_id`: the message that a row is about; `changed`: the messages whose rows stand out;
    `is_swap`: only rows, which replace those of the page.

    `{% column HEADING KINDS %}`, KINDS being classes of its cells, with these options:
    `label`: a shorter heading for small screens; `is_hidden`: the heading is for screen readers alone;
    `when`: the column is there only if this is true.
    """
    tag, label, *rest = token.split_contents()
    if "for" not in rest or "in" not in rest:
        raise TemplateSyntaxError(f"{tag}: expected a label, 'for', names, 'in' and what to go through")
    place = rest.index("in")
    names = [name for word in rest[1:place] for name in word.split(",") if name]
    options = _options(tag, rest[place + 2 :], parser, _TABLE_OPTIONS)
    before = parser.parse(("column", "endtable"))
    if any(str(getattr(node, "s", node)).strip() for node in before):
        raise TemplateSyntaxError(f"{tag}: nothing stands before its first column")
    columns = []
    while (part := parser.next_token()).contents != "endtable":
        tag, heading, *words = part.split_contents()
        kinds = words.pop(0) if words and "=" not in words[0] else '""'
        given = _options(tag, words, parser, _COLUMN_OPTIONS)
        cell = parser.parse(("column", "endtable"))
        columns.append(Column(parser.compile_filter(heading), parser.compile_filter(kinds), given, cell))
    compile_filter = parser.compile_filter
    return Table(compile_filter(label), names, compile_filter(rest[place + 1]), options, columns)


def _options(tag: str, words: list[str], parser: Parser, known: set[str]) -> dict[str, FilterExpression]:
    options = token_kwargs(words, parser)
    if words or not set(options) <= known:
        raise TemplateSyntaxError(f"{tag}: these are no options of it: {words or set(options) - known}")
    return options


def _attribute(name: str, value: str) -> SafeString:
    return format_html(' {}="{}"', name, value) if value else mark_safe("")
