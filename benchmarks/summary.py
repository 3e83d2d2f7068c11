"""SUMMARY: the page that a support lead prints, with its plots, of a month over live and archived messages."""

import time
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from benchmarks import loads
from benchmarks.results import Line, at_most, say
from benchmarks.world import World
from poisonadmin.archive.commands.requests import request_run
from poisonadmin.archive.commands.runs import archive_due
from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.core.domain.spark_settings import LOCAL_BATCH_MASTER
from poisonadmin.messages.commands.counter_checks import verify
from poisonadmin.store.models.archive import ArchiveRun
from poisonadmin.store.models.message import Message
from poisonadmin.system.commands.bootstrap import bootstrap
from sample.backlog.load import load_backlog
from workers.spark.archive_store import SparkArchiveStore
from workers.spark.session import start_session

NAME = "SUMMARY"
MESSAGES = 1_000_000
SECTIONS = ("ageing", "decision", "redelivery")
_TOO_LONG = "This takes too long to count"
_SPANS = {"28": "a month", "366": "a year"}
# Half of the messages are over, with a decision an hour after they failed.
_DECIDE = """
INSERT INTO history (message_id, from_state, to_state, event, attempt_number, actor, at)
SELECT id, 'NDLV', 'FAIL', 'marked_fail', attempt_number, 'benchmark', state_at + interval '1 h'
FROM message WHERE id % 2 = 0
"""
_FINAL = "UPDATE message SET state = 'FAIL', reason = coalesce(reason, 'expired') WHERE id % 2 = 0"


def run(world: World) -> list[Line]:
    """Measure what a browser waits for; every figure has to be there."""
    count = world.count(MESSAGES, least=10_000)
    loads.empty()
    load_backlog(messages=count, groups=min(400, count // 100), seed=1, force=True, say=lambda _: None)
    with connection.cursor() as cursor:
        cursor.execute(_DECIDE)
        cursor.execute(_FINAL)
    verify(is_repair=True, actor="benchmark")
    loads.settle_down()
    settings.ARCHIVE = str(world.directory / "archive")
    _archive(count // 4)
    loads.settle_down()
    bootstrap(world.directory, password="summary-" + "x" * 20)
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        browser = Client()
        browser.force_login(get_user_model().objects.get(username="admin"))
        lines = [_line(browser, days, words, count) for days, words in _SPANS.items()]
    loads.empty()
    return lines


def _archive(least: int) -> None:
    """Archive what is over."""
    spark = start_session("benchmark", local=LOCAL_BATCH_MASTER)
    try:
        made = request_run(as_of=timezone.now() + timedelta(days=36_500), principal=SYSTEM)
        while ArchiveRun.objects.filter(id=made.id, ended_at=None).exists():
            archive_due(SparkArchiveStore(spark, settings.ARCHIVE), worker="benchmark", seconds=3600)
    finally:
        spark.stop()
    made.refresh_from_db()
    archived = made.totals["messages"]["rows"]
    say(f"    {Message.objects.count():,} live, {archived:,} archived")
    assert archived >= least, made.totals


def _line(browser: Client, days: str, words: str, count: int) -> Line:
    took = []
    for _ in range(3):
        began = time.monotonic()
        page = browser.get(reverse("reports-summary"), {"days": days})
        took.append(time.monotonic() - began)
        assert page.status_code == 200, page.status_code
        text = page.content.decode()
        assert _TOO_LONG not in text, "a figure was not counted in time"
        assert all(f'id="t-{name}"' in text for name in SECTIONS), "a section is missing"
    say(f"    {words}: {', '.join(f'{seconds:.2f} s' for seconds in took)}")
    work = f"the summary of {words} with its plots, {count:,} messages, half archived"
    return at_most(NAME, work, max(took), aim=30, unit="s")
