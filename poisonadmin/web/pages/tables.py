"""The table of a page: `{% table "Sources" for row in rows %}{% column "Name" %}{{ row.name }}{% endtable %}`."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template import Context, Node, NodeList, TemplateSyntaxError
from django.template.base import FilterExpression, Parser, TextNode, Token, token_kwargs
from django.template.loader import get_template
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from poisonadmin.core.domain.access import Principal
from poisonadmin.web.pages.views import back_to, page

_NONE = FilterExpression("None", Parser([]))
_TABLE_OPTIONS = {"kind", "wrap", "has_keys", "row_id", "changed", "is_swap", "name"}
_COLUMN_OPTIONS = {"label", "is_hidden", "when", "sort", "key"}
# The tables whose columns a reader chooses, with their templates.
CHOSEN = {
    "messages": "messages/_message_table.html",
    "groups": "messages/_group_table.html",
    "sets": "messages/_set_table.html",
}
_YEAR_SECONDS = 365 * 24 * 3600


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

    @property
    def key(self) -> str | None:
        """The word by which a reader hides the column, None where it always stays."""
        return str(self.options["key"].resolve(Context())) if "key" in self.options else None

    def is_shown(self, context: Context, hidden: Collection[str]) -> bool:
        """Return whether the column is there for this reader, who has `hidden` some."""
        is_there = "when" not in self.options or bool(self.options["when"].resolve(context))
        return is_there and self.key not in hidden

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
        hidden = _hidden(context.get("request"), self._option("name", context))
        columns = [column for column in self.columns if column.is_shown(context, hidden)]
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
    `is_swap`: only rows, which replace those of the page; `name`: readers choose the columns of `CHOSEN[name]`.

    `{% column HEADING KINDS %}`, KINDS being classes of its cells, with these options:
    `label`: a shorter heading for small screens; `is_hidden`: the heading is for screen readers alone;
    `when`: the column is there only if this is true; `sort`: a `Sort`, None where it does not sort;
    `key`: a reader may hide it, and the choice is kept under this word.
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


def column_choices(name: str, request: HttpRequest) -> list[tuple[str, str, bool]]:
    """Return the columns of a table that a reader may hide: key, heading, and whether it is shown."""
    [table] = get_template(CHOSEN[name]).template.nodelist.get_nodes_by_type(TableNode)  # type: ignore[attr-defined]
    hidden = _hidden(request, name)
    return [(one.key, one.heading.resolve(Context()), one.key not in hidden) for one in table.columns if one.key]


def _hidden(request: HttpRequest | None, name: str | None) -> list[str]:
    return request.COOKIES.get(f"hidden-{name}", "").split(".") if request and name else []


@require_POST
@page(topic="use/dashboard#triage")
def choose(request: HttpRequest, _: Principal, name: str) -> HttpResponseBase:
    """Keep which columns of a table the reader wants, in a cookie."""
    if name not in CHOSEN:
        raise Http404
    shown = request.POST.getlist("column")
    hidden = [key for key, _, _ in column_choices(name, request) if key not in shown]
    response = HttpResponseRedirect(back_to(request, reverse("triage")))
    response.set_cookie(
        f"hidden-{name}",
        ".".join(hidden),
        _YEAR_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


urlpatterns = [
    path("columns/<slug:name>/", choose, name="columns"),
]
