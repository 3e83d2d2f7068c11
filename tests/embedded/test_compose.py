"""docker-compose.yml describes the processes of `make up`, as far as that can be seen without an engine."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from poisonadmin.embedded import plan

PROJECT = Path(__file__).resolve().parents[2]
HOME = Path("/var/lib/poisonadmin")
OWN = {"prepare", "web", "beat", "io", "spark-redelivery", "spark-batch"}
# Of the Compose Specification, what we use; anything else here is a typing error.
TOP_LEVEL = {"name", "services", "volumes"}
SERVICE = {
    *("build", "command", "depends_on", "environment", "healthcheck", "image", "init", "ports", "restart"),
    *("shm_size", "stop_grace_period", "stop_signal", "volumes"),
}
HEALTHCHECK = {"test", "interval", "timeout", "retries", "start_period"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
    return {key: value for key, value in loaded.items() if not key.startswith("x-")}


def test_only_keys_of_the_specification_are_used(compose: dict[str, Any]) -> None:
    assert set(compose) <= TOP_LEVEL
    for service in compose["services"].values():
        assert set(service) <= SERVICE
        assert set(service.get("healthcheck", {})) <= HEALTHCHECK
        assert {"build", "image"} & set(service)


def test_every_name_that_is_used_is_declared(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        for mount in service.get("volumes", []):
            assert mount.split(":")[0] in compose["volumes"]
        for needed, how in service.get("depends_on", {}).items():
            assert needed in services
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[needed]


def test_the_services_are_those_of_make_up(compose: dict[str, Any]) -> None:
    started = {spec.name for spec in plan.UP.after({}, HOME)} | {"web"}
    assert set(compose["services"]) == started | plan.SERVICES | {"prepare"} == OWN | plan.SERVICES


def test_each_process_has_the_command_of_make_up(compose: dict[str, Any]) -> None:
    for spec in [plan.web({}, 8000), *plan.UP.after({}, HOME)]:
        command = ["python" if part == sys.executable else str(part) for part in spec.command]
        described = compose["services"][spec.name]["command"]
        described = shlex.split(described) if isinstance(described, str) else described
        # In a container the web process is reached from outside it.
        assert ["127.0.0.1" if part == "0.0.0.0" else part for part in described] == command


def test_the_preparation_runs_what_make_up_runs_first(compose: dict[str, Any]) -> None:
    script = compose["services"]["prepare"]["command"][-1]
    for spec in [*plan.UP.before({}), plan.UP.bootstrap({})]:
        assert f"manage.py {spec.command[2]}" in script


def test_no_secret_has_a_value_in_the_file(compose: dict[str, Any]) -> None:
    text = (PROJECT / "docker-compose.yml").read_text()
    for name in ("POSTGRES_PASSWORD", "VALKEY_PASSWORD", "POISONADMIN_SECRET_KEY"):
        uses = re.findall(rf"\$\{{{name}(.)", text)
        assert set(uses) == {":"}


def test_the_image_is_built_from_the_lock_files() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    assert "--require-hashes -r requirements.lock" in dockerfile
    assert "npm ci" in dockerfile
