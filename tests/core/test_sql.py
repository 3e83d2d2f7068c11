"""Statements as values: what is put into them, and that their text is written in the program."""

import ast
from pathlib import Path

import pytest

from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.core.queries.sql import Sql, all_of, any_of, join, name, names

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "poisonadmin" / "core" / "queries" / "sql.py"


def computed_texts(tree: ast.Module) -> list[int]:
    """Return the lines on which a statement is made of a text that is written neither there nor as a constant."""
    literals = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    constants = {target.id for node in literals for target in node.targets if isinstance(target, ast.Name)}

    def is_written(text: ast.expr) -> bool:
        if isinstance(text, ast.IfExp):
            return is_written(text.body) and is_written(text.orelse)
        return isinstance(text, ast.Constant) or (isinstance(text, ast.Name) and text.id in constants)

    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Sql", "named_sql")
        if not is_written(node.args[0])
    ]


def compiled_texts(tree: ast.Module) -> list[int]:
    """Return the lines on which `raw` takes a text that is put together there."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "raw"
        if isinstance(node.args[0], ast.JoinedStr | ast.BinOp)
    ]


def test_the_text_of_a_statement_is_written_in_the_program() -> None:
    modules = {*ROOT.glob("poisonadmin/**/*.py"), *ROOT.glob("workers/**/*.py")} - {OWN}
    found = {str(path.relative_to(ROOT)): computed_texts(ast.parse(path.read_text())) for path in modules}
    assert {path: lines for path, lines in found.items() if lines} == {}


# The modules that compile texts: of declared names, numbers and constants.
COMPILERS = {
    "poisonadmin/alerts/queries/alerts.py",
    "poisonadmin/archive/commands/figures.py",
    "poisonadmin/core/queries/paging.py",
    "poisonadmin/core/queries/rows.py",
    "poisonadmin/delivery/commands/retry_decisions.py",
    "poisonadmin/messages/commands/transitions.py",
    "poisonadmin/reports/queries/live.py",
    "poisonadmin/search/queries/list_plans.py",
}


def test_only_a_few_modules_compile_texts() -> None:
    modules = {*ROOT.glob("poisonadmin/**/*.py"), *ROOT.glob("workers/**/*.py")} - {OWN}
    assert {str(path.relative_to(ROOT)) for path in modules if compiled_texts(ast.parse(path.read_text()))} == COMPILERS


def test_a_text_that_is_put_together_is_found() -> None:
    assert computed_texts(ast.parse("Sql('a')\nSql(f'{b}')\nSql(text)\nSql('a' + b)")) == [2, 3, 4]
    assert computed_texts(ast.parse("named_sql('a')\nnamed_sql(f'{b}')\nSql('a' if b else c)")) == [2, 3]
    assert compiled_texts(ast.parse("raw('a')\nraw(f'{b}')\nraw(text)\nraw('a' + b)")) == [2, 4]
    assert computed_texts(ast.parse("_A = 'a'\n_B = f'{b}'\nSql(_A)\nSql(_B)\ndef f(c):\n    Sql(c)")) == [4, 6]


@pytest.mark.django_db
def test_any_value_is_a_parameter_and_stays_what_it_is() -> None:
    value = "it's 100% {sql} %s; --"
    assert fetch_values(Sql("SELECT {value} WHERE {value} LIKE '%' AND '{{}}' = '{{}}'", value=value)) == [value]


@pytest.mark.django_db
def test_parts_are_put_in_with_their_parameters_in_order() -> None:
    columns = join(", ", [Sql("{n} + {m}", n=1, m=2), Sql("{text}", text="x"), Sql("3")])
    where = all_of([Sql("{yes}", yes=True), any_of([Sql("{no}", no=False), Sql("TRUE")]), any_of([]).negated])
    statement = Sql("SELECT {columns} WHERE {where}", columns=columns, where=where) + Sql("LIMIT {limit}", limit=1)
    assert fetch_rows(statement) == [(3, "x", 3)]


def test_statements_are_compared_by_what_they_say() -> None:
    assert Sql("a = {a}", a=1) == Sql("a = {b}", b=1) != Sql("a = {a}", a=2)


def test_a_part_that_is_not_given_is_an_error() -> None:
    with pytest.raises(KeyError, match="where"):
        Sql("SELECT 1 WHERE {where}")


@pytest.mark.parametrize("text", ["", "a b", "a;b", "A", "a.b.c", '"a"', "a\n"])
def test_only_a_name_is_put_in_as_a_name(text: str) -> None:
    assert names(["id", "m.id"]).text == "id, m.id"
    with pytest.raises(ValueError, match="is not the name"):
        name(text)
