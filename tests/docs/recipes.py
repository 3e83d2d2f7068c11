"""The recipes of docs/develop/extending.md, as insertions into the code."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "develop" / "extending.md"


@dataclass(frozen=True)
class Insertion:
    """`text` goes into `file`, below the only line that is `below`; where this is empty, the file is made of it."""

    file: str
    below: str
    text: str


@dataclass(frozen=True)
class Recipe:
    """`heading`: its section of the page. `at_most`: how many files it may touch. `check`: fails without it.

    `folder`: a new folder, which counts as one file.
    """

    heading: str
    at_most: int
    insertions: tuple[Insertion, ...]
    check: str
    folder: str = ""

    @property
    def touched(self) -> list[str]:
        """The files that it changes or makes, a new folder in place of what is in it."""
        files = [insertion.file for insertion in self.insertions]
        return list(dict.fromkeys(self.folder if self.folder and self.folder in file else file for file in files))


ACTION = Recipe(
    "An action on messages",
    4,
    (
        Insertion("poisonadmin/messages/domain/states.py", '    RESTORED = "restored"', '    REOPENED = "reopened"'),
        Insertion(
            "poisonadmin/messages/domain/states.py",
            "    Transition(FAIL, Event.RESTORED, (NDLV,)),",
            "    Transition(DLVD, Event.REOPENED, (NDLV,), (Reason.RETURNED,)),",
        ),
        Insertion(
            "poisonadmin/decisions/commands/decision_statements.py",
            "    OperationAction.RESTORE: _RESTORE,",
            "    OperationAction.REOPEN: _decision(OperationAction.REOPEN, State.NDLV, Reason.RETURNED),",
        ),
        Insertion(
            "poisonadmin/desk/api/decisions.py",
            '    OperationAction.RESTORE: ("Bring a message in FAIL back to NDLV.", ReasonInput),',
            '    OperationAction.REOPEN: ("Bring a delivered message back to NDLV.", ReasonInput),',
        ),
        Insertion(
            "poisonadmin/decisions/operations/domain/actions.py", '    RESTORE = "restore"', '    REOPEN = "reopen"'
        ),
        Insertion(
            "poisonadmin/decisions/operations/domain/actions.py",
            "    for action in (",
            """        Action(OperationAction.REOPEN, State.DLVD, Event.REOPENED, "Reopen…", "Reopen", "reopened",
               "It waits for a decision.", "arrow-back-up"),""",
        ),
    ),
    """
import django; django.setup()
from django.urls import reverse
from poisonadmin.messages.domain.states import page
from poisonadmin.decisions.queries.refusals import REFUSALS
from poisonadmin.decisions.operations.domain.actions import ACTIONS
from poisonadmin.web.pages.words import EVENTS
assert reverse("api-message-reopen", args=[1]) == "/api/v1/messages/1/reopen/"
assert "| `DLVD` | `reopened` | `NDLV` | `returned` |" in page()
assert "DLVD" in str(REFUSALS[ACTIONS["reopen"].key]) and EVENTS["reopened"] == "Reopened"
""",
)
COLUMN = Recipe(
    "A column of a report",
    1,
    (
        Insertion(
            "poisonadmin/reports/domain/columns.py",
            '    _text("bookmark", "m.bookmark"),',
            '    _text("name_of_address", "lower(m.address)"),',
        ),
    ),
    """
import django; django.setup()
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.reports.domain.reading import SparkDialect
from poisonadmin.reports.queries.live import PostgresDialect
for kind in ("failures", "attempts", "decisions"):
    [column] = asked_report(kind, columns=["name_of_address"]).read
    assert column.expression(PostgresDialect("UTC")) == column.expression(SparkDialect("UTC")) == "lower(m.address)"
assert asked_report("failures", group_by=["name_of_address"]).columns == ("name_of_address", "count")
""",
)
ATTEMPT_COLUMN = Recipe(
    "A column of an attempt",
    2,
    (
        Insertion(
            "poisonadmin/messages/domain/attempt.py",
            '    consumer_version: Annotated[str | None, PgType("text", 100)] = None',
            '    answered_by: Annotated[str | None, PgType("text", 40)] = None',
        ),
        Insertion(
            "poisonadmin/store/models/attempt.py",
            "    consumer_version = models.CharField(max_length=100, null=True)",
            "    answered_by = models.CharField(max_length=40, null=True)",
        ),
    ),
    """
import django; django.setup()
import dataclasses
import pyarrow as pa
from poisonadmin.archive.commands import restoring
from poisonadmin.desk.api.messages import ATTEMPT
from poisonadmin.messages.queries.detail_rows import AttemptRow
from poisonadmin.store.models.attempt import Attempt
from workers.delivery import node
from workers.spark.tables.columns import ATTEMPTS
assert "answered_by" in {field.name for field in dataclasses.fields(AttemptRow)}
assert ATTEMPT.schema["properties"]["answered_by"] == {"type": "string", "nullable": True}
assert "answered_by" in node._COPY and "answered_by" in node._INSERT and "%(answered_by)s" in restoring._ATTEMPT
assert ATTEMPTS.by_name["answered_by"].type == pa.string()
assert Attempt._meta.get_field("answered_by").max_length == 40
""",
)
FIELD = Recipe(
    "A configuration field",
    2,
    (
        Insertion(
            "poisonadmin/decisions/restart_jobs/domain.py",
            '    is_enabled: bool = settings.switch("Switched on: run by the schedule", default=False)',
            '    is_urgent: bool = settings.switch("Before all others", default=False)',
        ),
        Insertion(
            "poisonadmin/store/models/restart_job.py",
            "    canary = models.BooleanField(db_default=False)",
            "    is_urgent = models.BooleanField(db_default=False)",
        ),
    ),
    """
import django; django.setup()
from poisonadmin.core.domain.settings import settings_of
from poisonadmin.decisions.restart_jobs.api import RESTART_JOB, RestartJobInput
from poisonadmin.decisions.restart_jobs.domain import RestartJobSettings
from poisonadmin.decisions.restart_jobs.pages import RestartJobForm
from poisonadmin.decisions.restart_jobs.queries import _JOBS
from poisonadmin.store.models.restart_job import RestartJob
assert RestartJobInput().fields["is_urgent"].default is False
assert RESTART_JOB.schema["properties"]["is_urgent"] == {"type": "boolean"}
sections = dict(RestartJobForm().sections())
assert "Before all others" in [field.label for field in sections["When it runs"]]
assert "job.is_urgent" in str(_JOBS)
assert set(settings_of(RestartJobSettings)) <= {column.name for column in RestartJob._meta.fields}
""",
)
SETTING = Recipe(
    "A policy setting",
    2,
    (
        Insertion(
            "poisonadmin/policies/domain/policy.py",
            "    fail_non_delivered: bool = False",
            "    longest_outage: int = 0",
        ),
        Insertion(
            "poisonadmin/policies/domain/settings.py",
            '        "fail_non_delivered": _FLAG,',
            '        "longest_outage": _DELAY,',
        ),
    ),
    """
from poisonadmin.policies.domain.resolution import PolicySpec, resolve
from poisonadmin.policies.domain.settings import SETTINGS
from poisonadmin.policies.domain.resolution import values_in_force
resolved = resolve([PolicySpec("orders.#", settings={"longest_outage": 5})], "orders.eu")
assert resolved.policy.longest_outage == 5
assert SETTINGS["longest_outage"].input == "duration"
shown = {value.name: value.text for section in values_in_force(resolved) for value in section.values}
assert shown["longest_outage"] == "5 ms"
""",
)
KIND_OF_RUN = Recipe(
    "A kind of run",
    2,
    (
        Insertion("poisonadmin/runs/domain/kinds.py", '    ALIKE_GROUPS = "alike_groups"', '    MEASURE = "measure"'),
        Insertion(
            "workers/spark_tasks.py",
            "        comparisons.work(partial(compare, spark)),",
            "        __import__('measuring').work(partial(compare, spark)),",
        ),
    ),
    """
import sys, types
import django; django.setup()
from poisonadmin.core.domain.access import Permission
from poisonadmin.runs.commands.engine import RunWork
from poisonadmin.runs.domain.kinds import KindName, RunKind
measuring = sys.modules["measuring"] = types.ModuleType("measuring")
kind = RunKind(KindName("measure"), "measurement", "measurement.{}", "measurement", "measuring", Permission.DECIDE)
measuring.work = lambda measure: RunWork(kind, measure)
from poisonadmin.runs.api import JOB
from workers.spark_tasks import works_of
assert "measure" in JOB.schema["properties"]["kind"]["enum"]
assert kind in [one.kind for one in works_of(None)]
""",
)
WORD = Recipe(
    "A search word",
    2,
    (
        Insertion(
            "poisonadmin/search/domain/words.py",
            '    SearchWord("tag", TEXT, "A tag of a rule or of a person, as it is written."),',
            '    SearchWord("content_type", TEXT, "The type of its payload.", "type", FormField("Content type")),',
        ),
        Insertion(
            "poisonadmin/search/queries/meanings.py",
            '    "message_id": Meaning(_envelope("message_id"), _any("r.message_id"), _texts("m.message_id")),',
            '    "content_type": Meaning(_envelope("content_type"), files=_texts("m.content_type")),',
        ),
    ),
    """
import django; django.setup()
from datetime import UTC, datetime
from poisonadmin.search.queries.archived import archived_where
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.filter_values import InvalidFilter
from poisonadmin.desk.api.messages import FILTER
from poisonadmin.desk.pages.triage import CHIP_NAMES, FORM_FIELDS
from poisonadmin.search.domain.filters import parse_filter
from poisonadmin.search.queries.archived import in_files
from poisonadmin.search.queries.live import compile_filter
from poisonadmin.search.queries.meanings import SearchReader
assert [one.about for one in FILTER if one.name == "content_type"] == ["The type of its payload."]
assert "content_type" in FORM_FIELDS and CHIP_NAMES["content_type"] == "type"
asked = parse_filter({"q": ["content_type:text/xml"]})
assert compile_filter(asked, SYSTEM).rest.parameters == (["text/xml"],)
found = in_files(asked, SearchReader(SYSTEM, datetime.now(UTC)), is_exact=True)
assert found == (["(m.content_type IN ('text/xml'))"], [])
try:
    archived_where(asked, SYSTEM)
except InvalidFilter as error:
    assert error.detail.startswith("Archived messages cannot be asked for content_type. They can be for address, ")
else:
    raise AssertionError
""",
)
NEW_PAGE = Recipe(
    "A page",
    3,
    (
        Insertion(
            "poisonadmin/addresses/queries.py",
            '_KEY = Key(("a.name",), (str,), descending=False)',
            '''

def stopped_names(*, principal: Principal) -> list[str]:
    """Return the names of the addresses in scope that are stopped."""
    return [row.name for row in list_addresses(principal=principal, statuses=["STOPPED"]).results]
''',
        ),
        Insertion(
            "poisonadmin/desk/pages/addresses.py",
            "from poisonadmin.addresses import commands",
            "from poisonadmin.addresses.queries import stopped_names",
        ),
        Insertion(
            "poisonadmin/desk/pages/addresses.py",
            "MAX_DESTINATIONS = 500",
            '''

@page(filters=(), sidebar=SidebarEntry(Section.SYSTEM, 90, "Stopped", "ban", "z"), topic="use/schedules")
def show_stopped(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the addresses that are stopped."""
    return render(request, "addresses/stopped.html", {"names": stopped_names(principal=principal)})
''',
        ),
        Insertion(
            "poisonadmin/desk/pages/addresses.py",
            "urlpatterns = [",
            '    path("addresses/stopped/", show_stopped, name="stopped"),',
        ),
        Insertion(
            "templates/addresses/stopped.html",
            "",
            """{% extends "base.html" %}
{% block title %}Stopped addresses{% endblock %}
{% block content %}
  <div class="page-head"><h1>Stopped addresses</h1></div>
  {% table "Stopped addresses" for name in names has_keys=True %}
    {% column "Address" "wild" %}<a data-open href="{% link 'addresses-one' name=name %}">{{ name|clip:160 }}</a>
  {% endtable %}
{% endblock %}
""",
        ),
    ),
    """
import django; django.setup()
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string
from poisonadmin.addresses import queries
from poisonadmin.core.domain.access import principal, Role
from poisonadmin.system.pages.shell import sections_for
assert callable(queries.stopped_names)
entries = [entry for _, entries in sections_for(principal("pat", Role.VIEWER)) for entry in entries]
assert [(entry.route, entry.key) for entry in entries][-1] == ("stopped", "z")
try:
    text = render_to_string("addresses/stopped.html", {"names": ["orders.eu"], "sections": [("System", entries)]})
except TemplateDoesNotExist as error:
    raise AssertionError(error)
assert 'href="/addresses/one/?name=orders.eu"' in text and 'data-label="Address"' in text
assert 'href="/addresses/stopped/" data-key="z"' in text
""",
)
FEATURE = Recipe(
    "A feature",
    2,
    (
        Insertion("poisonadmin/holidays/__init__.py", "", ""),
        Insertion(
            "poisonadmin/holidays/domain.py",
            "",
            '''"""Holidays."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Holiday:
    """A day on which nobody decides."""

    name: str
''',
        ),
        Insertion(
            "poisonadmin/holidays/api.py",
            "",
            '''"""Holidays in the API."""

from rest_framework.response import Response

from poisonadmin.core.domain.access import Permission
from poisonadmin.holidays.domain import Holiday
from poisonadmin.web.api.contract import Paged, contract
from poisonadmin.web.api.shape import Shape
from poisonadmin.web.api.view import ApiView, route

HOLIDAY = Shape("Holiday", Holiday)


class HolidayList(ApiView):
    """`/holidays/`."""

    @contract(Permission.READ, "holidays", {200: Paged(HOLIDAY)})
    def get(self) -> Response:
        """List the holidays."""
        return self.whole(HOLIDAY, [Holiday("New year")])


urlpatterns = [route("holidays/", HolidayList, name="api-holidays")]
''',
        ),
        Insertion(
            "poisonadmin/holidays/pages.py",
            "",
            '''"""The page of holidays."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import path

from poisonadmin.core.domain.access import Principal
from poisonadmin.web.pages.views import Section, SidebarEntry, page


@page(filters=(), sidebar=SidebarEntry(Section.SYSTEM, 90, "Holidays", "sun", "z"))
def show(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Render the holidays."""
    return HttpResponse("New year")


urlpatterns = [path("holidays/", show, name="holidays")]
''',
        ),
        Insertion("pyproject.toml", '    "alerts : archive : comparisons",', '    "holidays",'),
    ),
    """
import django; django.setup()
import re
import tomllib
from pathlib import Path
from django.urls import resolve, reverse
from poisonadmin.core.domain.access import principal, Role
from poisonadmin.system.pages.shell import sections_for
assert resolve("/api/v1/holidays/").url_name == "api-holidays" and reverse("holidays") == "/holidays/"
entries = [entry for _, entries in sections_for(principal("pat", Role.VIEWER)) for entry in entries]
assert entries[-1].route == "holidays"
tiers = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
features = {file.parent.name for file in Path("poisonadmin").glob("*/__init__.py")}
assert tiers["exhaustive"] and features <= {name for layer in tiers["layers"] for name in re.split("[ :|]+", layer)}
""",
    folder="poisonadmin/holidays/",
)
# What a list on the page leaves open, as its example has it.
EXAMPLES = {"<feature>": "addresses", "<page>": "stopped", "<subject>": "holidays"}


def files_of(heading: str) -> list[str]:
    """Return the files that the page lists under a heading."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for placeholder, example in EXAMPLES.items():
        section = section.replace(placeholder, example)
    return re.findall(r"^- `([^`]+)`", section, re.MULTILINE)


def follow(recipe: Recipe, root: Path) -> None:
    """Copy the code to `root`, make the recipe's changes there, and run its check in a process of its own.

    Errors: `AssertionError`, with what the check wrote.
    """
    for folder in ("poisonadmin", "workers", "templates", "tests/typing_settings.py", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / folder).is_dir() else shutil.copy
        (root / folder).parent.mkdir(exist_ok=True)
        copy(ROOT / folder, root / folder)
    for insertion in recipe.insertions:
        file = root / insertion.file
        if not insertion.below:
            file.parent.mkdir(exist_ok=True)
            file.write_text(insertion.text, encoding="utf-8")
            continue
        before, line, after = file.read_text(encoding="utf-8").partition(f"\n{insertion.below}\n")
        assert line, f"{insertion.file} has no line {insertion.below!r}"
        assert f"\n{insertion.below}\n" not in after, f"{insertion.file} has {insertion.below!r} twice"
        file.write_text(f"{before}{line}{insertion.text}\n{after}", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", recipe.check],
        cwd=root,
        env={"DJANGO_SETTINGS_MODULE": "tests.typing_settings", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
