"""Jobs and the audit log on their pages: what a figure and a column mean."""

from collections.abc import Callable

import pytest
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from poisonadmin.core.commands import audit
from poisonadmin.store.models.run import LongRun
from tests.fixtures.pages import html_of

pytestmark = pytest.mark.django_db


def test_what_a_job_has_done_is_labelled(operator_browser: Client) -> None:
    job = LongRun.objects.create(kind="dry_run", state="succeeded", requested_by="pat", done=2, result={"matched": 1})
    text = html_of(operator_browser.get(f"/jobs/{job.id}/"))
    assert "2 done" in text
    assert "<dt>Matched</dt><dd>1</dd>" in text


def test_the_audit_tells_reasons_and_details_apart(browser_of: Callable[[str], Client]) -> None:
    audit.record("pat", "rule.enabled", "rule", "r", note="tried out", details={"version": 3})
    text = html_of(browser_of("admin").get("/audit/"))
    assert 'data-label="Reason">tried out · <span class="sub wild">version: <code title="3">3</code>' in text
    assert 'r<span class="sub">rule</span>' in text, "a rule that is called rule reads as one"


def test_a_sentence_goes_on_right_behind_a_time_and_a_path_breaks_at_its_slashes() -> None:
    parts = Template("{% load pages %}{% ago when %}.{% at when %}.{% ago none %}.{% path path %}.")
    text = parts.render(Context({"when": timezone.now(), "none": None, "path": "/in/<b>/a.json"}))
    assert text.count("</time>.") == 2
    assert "–</span>." in text
    assert text.endswith(">./<wbr>in/<wbr>&lt;b&gt;/<wbr>a.json.")


def test_redeliveries_that_succeeded_are_one_line(operator_browser: Client) -> None:
    for number in range(30):
        LongRun.objects.create(kind="redeliver", state="succeeded", requested_by="system", done=number % 2)
    failed = LongRun.objects.create(kind="redeliver", state="failed", requested_by="system")
    ingest = LongRun.objects.create(kind="ingest", state="succeeded", requested_by="system")
    text = html_of(operator_browser.get("/jobs/"))
    assert "<strong>30</strong> redelivery jobs</a> with 15 messages succeeded since" in text
    assert text.count("data-row") == 2
    for job in (failed, ingest):
        assert f'id="job-{job.id}"' in text
    assert html_of(operator_browser.get("/jobs/?kind=redeliver&state=succeeded")).count("data-row") == 30
