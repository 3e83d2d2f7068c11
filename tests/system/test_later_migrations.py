"""Migrations of a later version: named by what they do, and met by a version that does not know them."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from poisonadmin.store.schema import EXPAND, UnusableDatabase, check_former_migrations, check_schema
from tests.messages.simulated_tasks import execute

# From here on a name says what a migration does.
FIRST = "0015"
NAME = re.compile(r"\d{4}_(expand|contract)_\w+")
ALERT_KINDS = "alert_kind_known"


def more_than_added(operations: Sequence[Operation], before: ProjectState) -> list[Operation]:
    """Return what an expand migration must not do, of these: whatever the former version's statements could notice.

    A constraint may give way to one of the same name that allows more values.
    """
    found: list[Operation] = []
    made: set[str] = set()
    gone: dict[tuple[str, str], Operation] = {}
    for operation in operations:
        table = getattr(operation, "model_name_lower", "")
        match operation:
            case migrations.CreateModel():
                made.add(operation.name_lower)
            case _ if table in made:
                pass
            case migrations.AddIndex():
                pass
            case migrations.AddField() if _may_be_left_out(operation.field):
                pass
            case migrations.RemoveConstraint():
                gone[table, operation.name] = operation
            case migrations.AddConstraint(constraint=constraint) if (table, constraint.name) in gone:
                former = before.models["store", table].get_constraint_by_name(constraint.name)
                if _allowed(constraint) > _allowed(former):
                    del gone[table, constraint.name]
            case _:
                found.append(operation)
    return [*found, *gone.values()]


def _allowed(constraint: models.BaseConstraint) -> frozenset[tuple[str, str]]:
    """Return the pairs of a field and a value that a constraint `field IN (…)` allows; of others, itself."""
    match constraint:
        case models.CheckConstraint(condition=models.Q(children=[(str() as field, list() as values)], negated=False)):
            return frozenset((field, value) for value in values)
    return frozenset({("", str(constraint))})


def _may_be_left_out(field: "models.Field[object, object]") -> bool:
    """Return whether a version that does not know the column can write rows, any number of them."""
    has_value = field.null or field.has_db_default() or field.generated
    return has_value and not (field.unique and field.has_db_default())


def later_migrations() -> dict[str, migrations.Migration]:
    disk = MigrationLoader(None).disk_migrations
    return {name: one for (app, name), one in disk.items() if app == "store" and name >= FIRST}


def test_the_name_of_a_migration_says_whether_it_only_adds_and_is_true() -> None:
    loader, later = MigrationLoader(None), later_migrations()
    assert "0015_expand_metrics" in later
    for name, migration in later.items():
        assert NAME.fullmatch(name), f"{name}: call it {name[:4]}_expand_… or {name[:4]}_contract_…"
        if EXPAND.match(name):
            before = loader.project_state(("store", name), at_end=False)
            found = more_than_added(migration.operations, before)
            assert not found, f"{name}: call it {name[:4]}_contract_…, for it does more than add: {found}"


def _kinds(*kinds: str) -> list[Operation]:
    condition = models.Q(kind__in=list(kinds))
    return [
        migrations.RemoveConstraint("alert", ALERT_KINDS),
        migrations.AddConstraint("alert", models.CheckConstraint(condition=condition, name=ALERT_KINDS)),
    ]


def _known_kinds() -> list[str]:
    alert = MigrationLoader(None).project_state().models["store", "alert"]
    return [value for _, value in _allowed(alert.get_constraint_by_name(ALERT_KINDS))]


UNIQUE = models.UniqueConstraint(fields=["name"], name="one_name")
MORE = {
    "not null": [migrations.AddField("worker", "room", models.TextField())],
    "default in Python": [migrations.AddField("worker", "room", models.TextField(default="x"))],
    "unique": [migrations.AddField("worker", "room", models.TextField(db_default="x", unique=True))],
    "renamed": [migrations.RenameField("worker", "name", "title")],
    "removed": [migrations.RemoveField("worker", "name")],
    "dropped": [migrations.DeleteModel("worker")],
    "altered": [migrations.AlterField("worker", "name", models.TextField(null=True))],
    "constraint": [migrations.AddConstraint("worker", UNIQUE)],
    "script": [migrations.RunSQL("DROP TABLE worker")],
    "work": [migrations.RunPython(migrations.RunPython.noop)],
    "fewer kinds": _kinds("new_group"),
    "no kinds": _kinds("new_group")[:1],
}
ADDED = {
    "null": [migrations.AddField("worker", "room", models.TextField(null=True))],
    "default": [migrations.AddField("worker", "room", models.TextField(db_default="x"))],
    "index": [migrations.AddIndex("worker", models.Index(fields=["heartbeat_at"], name="worker_by_heartbeat"))],
    "table": [
        migrations.CreateModel("Room", [("name", models.TextField(primary_key=True))]),
        migrations.AddConstraint("room", UNIQUE),
    ],
}


@pytest.mark.parametrize("what", MORE)
def test_what_does_more_than_add_is_found(what: str) -> None:
    [found] = more_than_added(MORE[what], MigrationLoader(None).project_state())
    assert found == MORE[what][0]


@pytest.mark.parametrize("what", [*ADDED, "kinds"])
def test_what_adds_is_passed(what: str) -> None:
    operations = ADDED.get(what) or _kinds(*_known_kinds(), "new_kind")
    assert more_than_added(operations, MigrationLoader(None).project_state()) == []


@pytest.fixture
def applied(transactional_db: None) -> Iterator[Callable[..., None]]:
    """Yield what notes migrations of the names as applied."""

    def note(*names: str) -> None:
        for name in names:
            execute("INSERT INTO django_migrations (app, name, applied) VALUES ('store', %s, now())", name)

    yield note
    execute("DELETE FROM django_migrations WHERE name LIKE '%%999%%'")


def test_a_version_starts_and_migrates_where_a_later_one_has_only_added(
    applied: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    applied("9998_expand_rooms", "9999_expand_doors")
    with caplog.at_level(logging.WARNING, "poisonadmin.store.schema"):
        check_schema()
    assert "does not know and that only add (9998_expand_rooms, 9999_expand_doors)" in caplog.text
    assert check_former_migrations(databases=["default"]) == []


@pytest.mark.parametrize("name", ["9999_contract_rooms", "9999_rooms", "9999_not_expand_rooms", "expand_rooms_999"])
def test_a_version_is_refused_where_a_later_one_did_anything_else(applied: Callable[..., None], name: str) -> None:
    applied("9998_expand_doors", name)
    with pytest.raises(UnusableDatabase, match=rf"does not know \({name}\): start the newer version"):
        check_schema()
    [refused] = check_former_migrations(databases=["default"])
    assert (refused.id, name in refused.msg) == ("store.E001", True)
