"""Deployments are reported once, listed in scope, and marks of the plots; consumers say their version themselves."""

import json
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from django.db import connection
from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM, OutOfScope, Permission, Principal, Role, principal
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.deployments.commands import report_deployment
from poisonadmin.deployments.domain.consumers import InvalidDeployment
from poisonadmin.deployments.queries import list_deployments, sightings
from poisonadmin.destinations.commands import save_destination
from poisonadmin.poison_list.commands import Heartbeat, record_heartbeat
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.access import Audit
from poisonadmin.store.models.deployment import Deployment, SeenVersion
from poisonadmin.store.models.failure_group import GroupHour
from poisonadmin.store.models.message import Message
from poisonadmin.system.commands.housekeeping import clean_up
from tests.fixtures.api import caller_of, take_dead
from tests.fixtures.delivery import claim, enqueue, make_destination, run_shards
from tests.fixtures.pages import log_in

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 26, 3, 0, tzinfo=UTC)
OUTSIDER = principal("out", Role.ADMIN, ["elsewhere.#"])


def alive(consumer: str) -> list[tuple[str, str]]:
    """Return where versions of a consumer are seen, and which."""
    return [(one.seen_in, one.version) for one in sightings(consumer, NOW + timedelta(days=1000))]


def test_a_report_is_written_once_and_a_rollback_is_another_one() -> None:
    caller = caller_of("operator")
    answers = [caller.post("deployments/", {"consumer": "orders.#", "version": v}) for v in ("2", "2", "1", "2")]
    assert [answer.status_code for answer in answers] == [201, 200, 201, 201]
    assert [one.json()["version"] for one in answers] == ["2", "2", "1", "2"]
    body = {"consumer": "orders.#", "version": "2", "at": "2026-01-02T03:04:05Z"}
    assert [caller.post("deployments/", body).status_code for _ in range(2)] == [201, 200]
    listed = caller.get("deployments/").json()["results"]
    assert [one["version"] for one in listed] == ["2", "1", "2", "2"]
    assert listed[-1]["at"].startswith("2026-01-02T03:04:05")
    assert Audit.objects.filter(action="deployment.reported").count() == 4


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("consumer", {"consumer": "a b", "version": "1"}),
        ("version", {"consumer": "a", "version": "1\t2"}),
        ("at", {"consumer": "a", "version": "1", "at": "2099-01-01T00:00:00Z"}),
        ("at", {"consumer": "a", "version": "1", "at": "yesterday"}),
        ("who", {"consumer": "a", "version": "1", "who": "me"}),
    ],
)
def test_what_is_no_report_is_refused(field: str, body: dict[str, str]) -> None:
    answer = caller_of("admin").post("deployments/", body)
    assert answer.status_code == 400
    assert field in answer.content.decode()
    assert not Deployment.objects.exists()


@pytest.mark.parametrize("scope", [Permission.INGEST, Permission.CONFIGURE])
def test_either_permission_will_do(scope: Permission) -> None:
    reporter = Principal("ci", Role.ADMIN, frozenset({scope}))
    assert report_deployment("billing", "1", principal=reporter)[1]


def test_nobody_reports_or_sees_a_consumer_out_of_scope() -> None:
    make_destination()
    report_deployment("orders.#", "1", principal=SYSTEM)
    report_deployment("shop", "1", principal=SYSTEM)
    for consumer in ("orders.eu", "shop", "elsewhere2"):
        with pytest.raises(OutOfScope):
            report_deployment(consumer, "1", principal=OUTSIDER)
    assert report_deployment("elsewhere.eu", "1", principal=OUTSIDER)[1]
    assert [one.consumer for one in list_deployments(principal=OUTSIDER).results] == ["elsewhere.eu"]
    assert [one.consumer for one in list_deployments(principal=SYSTEM, consumer="orders.eu").results] == ["orders.#"]


def test_the_latest_version_of_each_is_alive() -> None:
    make_destination()
    take_dead("orders.eu")
    for version in ("2.5", "2.4"):
        report_deployment(
            "orders.#", version, principal=SYSTEM, at=NOW - timedelta(days=300 if version == "2.4" else 301)
        )
        record_heartbeat(Heartbeat("billing-1", "orders.eu", version), principal=SYSTEM)
        SeenVersion.objects.create(seen_in="answer", consumer="shop", version=version)
        SeenVersion.objects.filter(version="2.5").update(last_at=NOW - timedelta(days=600))
    assert set(alive("orders.eu")) == {("deployment", "2.4"), ("heartbeat", "2.4"), ("answer", "2.4")}
    assert alive("shop") == [("answer", "2.4")]
    assert alive("elsewhere") == []
    # While a version is rolled out, answers of both come; a deployment ends the one before.
    for minutes, versions in ((9, {"2.4", "2.5"}), (11, {"2.4"})):
        SeenVersion.objects.filter(version="2.5").update(last_at=timezone.now() - timedelta(minutes=minutes))
        assert {one.version for one in sightings("orders.eu", NOW - timedelta(days=601))} == versions


def test_a_report_without_a_time_says_now() -> None:
    made, _ = report_deployment("billing", "1", principal=SYSTEM)
    assert abs(made.at - timezone.now()) < timedelta(minutes=1)
    with pytest.raises(InvalidDeployment):
        report_deployment("billing", "1", principal=SYSTEM, at=timezone.now() + timedelta(hours=1))


@pytest.mark.usefixtures("page_settings")
def test_plots_have_marks() -> None:
    make_destination()
    message = Message.objects.get(id=take_dead("orders.eu"))
    for consumer in ("shop", "orders.eu", "unrelated"):
        report_deployment(consumer, "2.5-<b>", principal=SYSTEM)
    client = log_in("admin")
    found = json.loads(client.get("/outcomes.json?span=3600").content)
    assert [words for _, words in found["deployments"]] == ["shop 2.5-<b>", "orders.eu 2.5-<b>", "unrelated 2.5-<b>"]
    page = client.get(f"/groups/{message.group_id}/").content.decode()
    assert page.count("<title>shop 2.5-&lt;b&gt;, orders.eu 2.5-&lt;b&gt;</title>") == 2
    assert "unrelated" not in page
    assert "failed_after=" in page
    assert "2.5-&lt;b&gt;" in client.get("/deployments/?consumer=shop").content.decode()


@pytest.mark.usefixtures("page_settings")
def test_the_summary_of_reports_has_marks() -> None:
    make_destination()
    yesterday = timezone.now() - timedelta(days=1)
    take_dead("orders.eu")
    GroupHour.objects.update(hour=yesterday.replace(minute=0, second=0, microsecond=0))
    report_deployment("shop", "2.5", principal=SYSTEM, at=yesterday)
    page = log_in("admin").get("/reports/summary/?days=7").content.decode()
    assert "<title>shop 2.5</title>" in page


def test_old_sightings_are_forgotten() -> None:
    SeenVersion.objects.create(seen_in="answer", consumer="shop", version="1")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE seen_version SET last_at = now() - interval '91 days'")
    clean_up()
    assert not SeenVersion.objects.exists()


class _Versioned(BaseHTTPRequestHandler):
    """Takes every message, and says which version has."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.send_header("PoisonAdmin-Consumer-Version", "2.5.0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.django_db(transaction=True)
def test_the_answers_of_a_destination_say_which_version_is_alive(test_database_url: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Versioned) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        config = {"url": f"http://127.0.0.1:{server.server_port}/"}
        save_destination("shop", kind="http", config=config, secrets=None, max_rate_per_second=None, principal=SYSTEM)
        save_policy("orders.#", preset=None, settings={}, destination="shop", principal=SYSTEM)
        enqueue(3)
        run_shards(test_database_url, claim())
        server.shutdown()
    assert settle().delivered == 3
    assert alive("shop") == alive("orders.eu") == [("answer", "2.5.0")]
    assert alive("orders.us") == []
