"""The Helm chart: what values make of it, and that it describes the processes of docker-compose.yml."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from poisonadmin import settings
from tests.deploy.chart import CHART, LARGEST, PROJECT, ChartRefused, render

CASES = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
COMPOSE = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
DIRECTORY = "/run/secrets/poisonadmin"
# Of libraries, and no settings of ours.
OF_LIBRARIES = {"AWS_SHARED_CREDENTIALS_FILE", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_HOSTNAME"}
# Of the image, of `make up`, or not for a cluster.
LEFT_OUT = {"POISONADMIN_PORT", "POISONADMIN_STATIC_ROOT", "POISONADMIN_DEBUG", "JAVA_HOME", "PYSPARK_PYTHON"}
# Values of Spark's that cases.yaml tests.
ELSEWHERE = {"SPARK_MASTER", "SPARK_CONF_DIR"}
CONNECT = "secrets: {sparkRemote: {existingSecret: connect}}"
# Asks Django for the path of a probe, with the probe's headers.
ASK = """import django, json, sys; django.setup()
from django.test import Client
path, headers = json.loads(sys.argv[1])
print(Client().get(path, headers=headers).status_code)"""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case: dict[str, Any]) -> None:
    given = yaml.safe_dump(case["values"])
    if refused := case.get("refused"):
        with pytest.raises(ChartRefused) as refusal:
            render(given)
        assert refused in str(refusal.value)
    elif absent := case.get("absent"):
        assert absent not in render(given)
    else:
        text = json.dumps(render(given)[case["object"]])
        assert [part for part in case.get("has", []) if part not in text] == [], text
        assert [part for part in case.get("lacks", []) if part in text] == [], text


def pods(values: str) -> dict[str, Any]:
    """Return each component's container, and its files of secrets with the Secret of each."""
    found = {}
    for name, one in render(values).items():
        if name.startswith(("Deployment", "Job")):
            pod = one["spec"]["template"]["spec"]
            [sources] = [volume["projected"]["sources"] for volume in pod["volumes"] if volume["name"] == "secrets"]
            files = {item["path"].removeprefix("spark/") for source in sources for item in source["secret"]["items"]}
            found[name.split()[1].replace("migrate", "prepare")] = (pod["containers"][0], files)
    return found


def words(command: str | list[str]) -> list[str]:
    """Return the words of a command, without regard to how it is broken into lines."""
    return shlex.split(command if isinstance(command, str) else shlex.join(" ".join(one.split()) for one in command))


def test_processes_secrets_and_limits_are_those_of_docker_compose() -> None:
    found = pods(LARGEST)
    assert {*found} == {name for name, one in COMPOSE.items() if "redis-url" in one.get("secrets", [])}
    for name, (container, files) in found.items():
        service = COMPOSE[name]
        assert words(container["command"]) == words(service["command"])
        assert files - {"aws-credentials", "mail-url", "oidc-client-secret"} == {*service["secrets"]}
        assert container["resources"]["limits"]["memory"] == service["mem_limit"].replace("g", "Gi")
        variables = {one["name"]: one.get("value", "").replace(DIRECTORY, "/run/secrets") for one in container["env"]}
        assert variables.items() >= {one for one in service["environment"].items() if one[0] not in ELSEWHERE}
        if name not in ("web", "prepare"):
            assert container["livenessProbe"]["exec"]["command"] == ["sh", "-c", service["healthcheck"]["test"][1]]


def test_the_web_process_alone_has_the_url_through_a_pooler() -> None:
    for name, (container, files) in pods("secrets: {webDatabaseUrl: {existingSecret: pooled}}").items():
        variables = {one["name"]: one.get("value", "") for one in container["env"]}
        file = "web-database-url" if name == "web" else "database-url"
        assert variables["DATABASE_URL_FILE"] == f"{DIRECTORY}/{file}"
        assert ("web-database-url" in files) == (name == "web"), "others cannot read it"


def test_the_user_is_that_of_the_image() -> None:
    user = yaml.safe_load((CHART / "values.yaml").read_text())["user"]
    assert f"useradd --system --uid {user} " in (PROJECT / "Dockerfile").read_text()


def test_the_chart_knows_every_setting_and_no_other() -> None:
    known = set(settings.env._variables.asked)
    offered = json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]["properties"]
    given = {one["name"] for values in (LARGEST, CONNECT) for pod, _ in pods(values).values() for one in pod["env"]}
    ours = {name for name in given | {*offered} if name in known or not name.startswith("AWS_")} - OF_LIBRARIES
    assert ours <= known
    # A secret is given as a file, and never by its value.
    assert {name for name in known - ours if f"{name}_FILE" not in known} == LEFT_OUT
    assert {name for name in ours if f"{name}_FILE" in known} == set()


def test_the_web_process_answers_its_probes_behind_tls(tmp_path: Path) -> None:
    web, _ = pods(LARGEST)["web"]
    variables = {one["name"]: one["value"] for one in web["env"] if not one["value"].startswith(DIRECTORY)}
    variables |= {"DATABASE_URL": os.environ["DATABASE_URL"], "POISONADMIN_HOME": str(tmp_path)}
    variables |= {"DJANGO_SETTINGS_MODULE": "poisonadmin.settings", "POISONADMIN_DB_POOL": "false"}
    probe = web["livenessProbe"]["httpGet"]
    asked = json.dumps([probe["path"], {one["name"]: one["value"] for one in probe["httpHeaders"]}])
    command = [sys.executable, "-c", ASK, asked]
    done = subprocess.run(command, env=variables, cwd=PROJECT, capture_output=True, text=True)
    assert done.stdout == "200\n", done.stderr
