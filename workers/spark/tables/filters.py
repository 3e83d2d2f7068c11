"""Spark's filters on a table's rows, as SQL for the database and as an expression for Arrow."""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import pyarrow.compute as pc
from psycopg import sql
from pyspark.sql import datasource as asked

from workers.spark.tables.columns import Column, Table

# Not, of one of the others, is a filter too.
_OfOneColumn = (
    asked.EqualTo
    | asked.GreaterThan
    | asked.GreaterThanOrEqual
    | asked.LessThan
    | asked.LessThanOrEqual
    | asked.In
    | asked.IsNull
    | asked.IsNotNull
)
_COMPARISONS: dict[type[asked.Filter], tuple[str, str]] = {
    asked.EqualTo: ("{} = ", "equal"),
    asked.GreaterThan: ("{} > ", "greater"),
    asked.GreaterThanOrEqual: ("{} >= ", "greater_equal"),
    asked.LessThan: ("{} < ", "less"),
    asked.LessThanOrEqual: ("{} <= ", "less_equal"),
}


def is_known(one: asked.Filter, table: Table) -> bool:
    """Return whether the database and Arrow can both answer the filter."""
    if isinstance(one, asked.Not):
        return is_known(one.child, table)
    return isinstance(one, _OfOneColumn) and len(one.attribute) == 1 and one.attribute[0] in table.by_name


def column_of(one: asked.Filter) -> str:
    """Return the name of the column that a known filter is about."""
    if isinstance(one, asked.Not):
        return column_of(one.child)
    assert isinstance(one, _OfOneColumn)
    return str(one.attribute[0])


def as_sql(filters: Iterable[asked.Filter], table: Table) -> list[tuple[Column, str]]:
    """Return each filter as a condition on its column, `{}` standing for the column."""
    return [_sql(one, table) for one in filters]


def _sql(one: asked.Filter, table: Table) -> tuple[Column, str]:
    if isinstance(one, asked.Not):
        column, text = _sql(one.child, table)
        return column, f"NOT ({text})"
    assert isinstance(one, _OfOneColumn)
    column = table.by_name[one.attribute[0]]
    if isinstance(one, asked.IsNull):
        return column, "{} IS NULL"
    if isinstance(one, asked.IsNotNull):
        return column, "{} IS NOT NULL"
    if isinstance(one, asked.In):
        return column, f"{{}} IN ({', '.join(literal(value) for value in one.value)})"
    return column, _COMPARISONS[type(one)][0] + literal(one.value)


def literal(value: Any) -> str:
    """Return a value as SQL, for a condition of `Table.select`."""
    # Braces and percent signs would be read as places for values further on.
    return sql.Literal(value).as_string().replace("{", "{{").replace("}", "}}").replace("%", "%%")


def as_expression(filters: Iterable[asked.Filter]) -> pc.Expression | None:
    """Return all of the filters as one Arrow expression; None for none."""
    found = [_expression(one) for one in filters]
    return reduce(lambda left, right: left & right, found) if found else None


def _expression(one: asked.Filter) -> pc.Expression:
    if isinstance(one, asked.Not):
        return ~_expression(one.child)
    assert isinstance(one, _OfOneColumn)
    field = pc.field(one.attribute[0])
    if isinstance(one, asked.IsNull):
        return field.is_null()
    if isinstance(one, asked.IsNotNull):
        return field.is_valid()
    if isinstance(one, asked.In):
        return field.isin(list(one.value))
    compare = getattr(pc, _COMPARISONS[type(one)][1])
    return compare(field, pc.scalar(one.value))
