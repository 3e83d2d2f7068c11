"""The alert rules and the dashboard of `deploy/`, judged by Prometheus' own checker, and by what `/metrics` has."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from tests.apt import find_program

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "poisonadmin.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "poisonadmin.json"
SERIES = Path(__file__).with_name("prometheus_test.yml")


def promtool(*arguments: str | Path) -> str:
    """Return what promtool says; fail when it is not content."""
    program = find_program("promtool")
    assert program is not None, "install the package `prometheus`"
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    """Return the expressions of the dashboard."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel["targets"]]


def test_every_rule_fires_on_recorded_series_and_none_when_all_is_well() -> None:
    assert "SUCCESS" in promtool("test", "rules", SERIES)
    fired = set(re.findall(r'alertname="(\w+)"', SERIES.read_text()))
    assert fired == {rule["alert"] for rule in rules()}


def test_the_dashboard_is_in_prometheus_language(tmp_path: Path) -> None:
    recorded = [{"record": f"r:{place}", "expr": expression} for place, expression in enumerate(expressions())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    assert f"{len(recorded)} rules found" in promtool("check", "rules", tmp_path / "rules.yml")


@pytest.mark.django_db
def test_rules_and_dashboard_name_only_what_metrics_has() -> None:
    texts = [*expressions(), *(rule["expr"] for rule in rules())]
    named = {name for text in texts for name in re.findall(r"poisonadmin_\w+", text)}
    there = re.findall(r"^# TYPE (\w+) (\w+)$", Client().get("/metrics").content.decode(), re.MULTILINE)
    endings = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
    assert named <= {name + ending for name, kind in there for ending in endings[kind]}
    assert len(named) > 20


def test_panels_lie_beside_one_another() -> None:
    taken = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken
        assert columns.stop <= 24
        taken |= cells
