"""A wrong variable stops the start and is named in one line, without its value."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql.base import DatabaseWrapper
from django.http import HttpResponse
from django.test import RequestFactory
from django_structlog.middlewares import RequestMiddleware
from psycopg.conninfo import conninfo_to_dict
from pyarrow import fs
from structlog.contextvars import get_contextvars

from poisonadmin.core.domain.archive_place import OPTIONS, UnusableArchive, archive_place
from poisonadmin.environment import Environment
from tests.services import Services

ROOT = Path(__file__).resolve().parents[2]
CANARY = "s3cr3t"
KEY = CANARY * 6
GOOD = {"DATABASE_URL": "postgresql://u:p@127.0.0.1:5432/n"}

WRONG = [
    ("DATABASE_URL", ""),
    ("DATABASE_URL", f"postgresql://u:{CANARY}@127.0.0.1:99999/n"),
    ("DATABASE_URL", f"mysql://u:{CANARY}@127.0.0.1/n"),
    ("DATABASE_URL", f"postgresql://u:{CANARY}@127.0.0.1"),
    ("DATABASE_URL", f"postgresql://u:{CANARY}@[::1/n"),
    ("MIGRATION_DATABASE_URL", f"mysql://u:{CANARY}@127.0.0.1/n"),
    ("REDIS_URL", f"http://:{CANARY}@127.0.0.1"),
    ("REDIS_URL", f"redis://:{CANARY}@127.0.0.1:x/0"),
    ("POISONADMIN_ALLOWED_NETWORKS", "10.0.0.0/8, everywhere"),
    ("POISONADMIN_ALLOW_LOOPBACK", "maybe"),
    ("POISONADMIN_ALLOWED_HOSTS", "https://poison.example.org"),
    ("POISONADMIN_TRUSTED_ORIGINS", "poison.example.org"),
    ("POISONADMIN_BEHIND_TLS", "please"),
    ("POISONADMIN_TRUSTED_PROXIES", "127.0.0.1, proxy.example.org"),
    ("POISONADMIN_TRUSTED_PROXIES", "*"),
    ("POISONADMIN_SESSION_HOURS", "0"),
    ("POISONADMIN_SIGN_OFF_HOURS", "0"),
    ("POISONADMIN_MAIL_URL", f"http://u:{CANARY}@mail.example.org"),
    ("POISONADMIN_MAIL_URL", f"smtp://u:{CANARY}@mail.example.org:x"),
    ("POISONADMIN_MAIL_URL", f"smtp://u:{CANARY}@"),
    ("POISONADMIN_MAIL_FROM", "PoisonAdmin"),
    ("POISONADMIN_MAIL_FROM", "PoisonAdmin <poison>, other@example.org"),
    ("POISONADMIN_PUBLIC_URL", "poison.example.org"),
    ("POISONADMIN_PUBLIC_URL", "https://a.example,https://b.example"),
    ("POISONADMIN_TRACE_LINKS", "https://logs.example.org/{trace_id}"),
    ("POISONADMIN_TRACE_LINKS", "Logs=javascript:alert({trace_id})"),
    ("POISONADMIN_TRACE_LINKS", "Logs=https://{trace_id}.example.org/"),
    ("POISONADMIN_TRACE_LINKS", "Logs=https://logs.example.org/{trace_id.__class__}"),
    ("POISONADMIN_TRACE_LINKS", "Logs=https://logs.example.org/{payload}"),
    ("POISONADMIN_DEBUG", "2"),
    ("POISONADMIN_DB_POOL", "many"),
    ("POISONADMIN_ENVIRONMENT", "x" * 100),
    ("POISONADMIN_LOG_LEVEL", "LOUD"),
    ("POISONADMIN_ALIVE_FILE", "alive"),
    ("POISONADMIN_ALIVE_FILE", "/nowhere/alive"),
    ("POISONADMIN_ALIVE_FILE", "/"),
    ("POISONADMIN_PORT", "http"),
    ("POISONADMIN_PORT", "0"),
    ("POISONADMIN_HANDLER_PATH", "relative/path"),
    ("POISONADMIN_SANDBOX_USER", "somebody-who-is-not-there"),
    ("POISONADMIN_SOURCE_ROOTS", "relative/path"),
    ("POISONADMIN_ARCHIVE", "relative/path"),
    ("POISONADMIN_ARCHIVE", "ftp://host/path"),
    ("POISONADMIN_SOURCE_ROOTS", "/srv:/etc/poison"),
    ("POISONADMIN_ARCHIVE", "s3://bucket/path?regoin=eu-central-1"),
    ("POISONADMIN_ARCHIVE", f"s3://bucket/path?{CANARY}"),
    ("POISONADMIN_SECRET_KEY", f"{CANARY}{CANARY}{CANARY}{CANARY}{CANARY}{CANARY}\nof two lines"),
    ("POISONADMIN_SECRET_KEY", "k"),
    ("POISONADMIN_SECRET_KEY", CANARY),
    ("REDIS_URL_FILE", f"redis://:{CANARY}@127.0.0.1/0"),
    ("POISONADMIN_SECRET_KEY_FILE", "/dev/null"),
    ("POISONADMIN_SECRET_KEY_FILE", "/"),
    ("POISONADMIN_SECRET_KEY_FILE", "/dev/zero"),
    ("POISONADMIN_SECRET_KEY_FILE", "~nobody-of-this-name/key"),
    ("DATABASE_URL_FILE", "/etc/hostname"),  # beside DATABASE_URL
    ("POISONADMIN_ALLOWED_NETWORKS", f"10.0.0.0/8,{CANARY}"),
    ("SPARK_MASTER", "somewhere"),
    ("SPARK_REMOTE", "https://127.0.0.1"),
    ("JAVA_HOME", "/nowhere/at/all"),
]


MASTERS = ["local", "local[12,4]", "local-cluster[2,2,1024]", "spark://h:7077", "yarn"]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], "subprocess.CompletedProcess[str]"]:
    """Start `manage.py check` with each wrong variable, and read the settings with each place where Spark runs."""
    check, read = ["manage.py", "check"], ["-c", "from django.conf import settings; settings.DEBUG"]
    cases = dict.fromkeys(WRONG, check) | {("SPARK_MASTER", master): read for master in MASTERS}
    home = tmp_path_factory.mktemp("home")
    asked = [{"program": program, "environment": _environment(dict([case]), home)} for case, program in cases.items()]
    done = _start(["-m", "tests.web.starting"], {}, home, json.dumps(asked))
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    return {case: subprocess.CompletedProcess(cases[case], *end) for case, end in zip(cases, ended, strict=True)}


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}-{number}" for number, (name, _) in enumerate(WRONG)])
def test_a_wrong_variable_stops_the_start_with_one_line_that_names_it(
    name: str, value: str, started: dict[tuple[str, str], "subprocess.CompletedProcess[str]"]
) -> None:
    ended = started[name, value]
    assert ended.returncode != 0
    [line] = ended.stderr.strip().splitlines()
    assert name in line
    assert CANARY not in ended.stderr + ended.stdout


DATABASE_URLS = [
    f"mysql://u:{CANARY}@h/n", f"psql://u:{CANARY}@h/n", f"postgresql+psycopg://u:{CANARY}@h/n",
    f"host=h password={CANARY} dbname=n", f"postgresql:u:{CANARY}@h/n", f"postgresql:/u:{CANARY}@h/n", CANARY,
    f"postgresql://u:{CANARY}%off@h/n", f"postgresql://u:{CANARY}%@h/n", f"postgresql://u:{CANARY}%00@h/n",
    f"postgresql://u:{CANARY}@h:99999/n", f"postgresql://u:{CANARY}@h:x/n", f"postgresql://u:{CANARY}@h:0/n",
    f"postgresql://u:{CANARY}@h:-1/n", f"postgresql://u:{CANARY}@h", f"postgresql://u:{CANARY}@[::1/n",
    f"postgresql://u:{CANARY}/x@h/n", f"postgresql://u:{CANARY} x@h/n", f"postgresql://u:{CANARY}@h1:1,h2:x/n",
    f"postgresql://u:{CANARY}@h/n?sslmode=maybe", f"postgresql://u:{CANARY}@h/n?connect_timeout=soon",
    f"postgresql://u:{CANARY}@h/n?colour=red", f"postgresql://u:{CANARY}@h/n?target_session_attrs=any-old",
    f"postgresql://u:{CANARY}@h/n?service=none", f"postgresql://u:{CANARY}@h/n?keepalives=x",
    f'"postgresql://u:{CANARY}@h/n"',
]  # fmt: skip
REDIS_URLS = [
    f"http://:{CANARY}@h", f"redis:{CANARY}@h/0", f"redis:/:{CANARY}@h/0", CANARY, f"REDIS_URL=redis://:{CANARY}@h",
    f"amqp://:{CANARY}@h/0", f"sentinel://:{CANARY}@h:26379/0", f"unix://:{CANARY}@/x.sock",
    f"redis+socket:///{CANARY}.sock", f"redis://:{CANARY}@h:x/0", f"redis://:{CANARY}@h:99999/0",
    f"redis://:{CANARY}@h:0", f"redis://:{CANARY}@", f"redis://:{CANARY}@/0", f"redis://:{CANARY}@h/abc",
    f"redis://:{CANARY}@h/0/1", f"redis://:{CANARY}@h/-1", f"redis://:{CANARY}@h/0?socket_timeout=abc",
    f"redis://:{CANARY}@h/0?colour=red", f"redis://:{CANARY}@h/0?db=abc", f"redis://:{CANARY}@[::1/0",
    f"redis://:{CANARY} x@h/0", f"redis://:{CANARY}#@h/0", f"redis://:{CANARY}/x@h/0",
    f"rediss://:{CANARY}@h/0?ssl_cert_reqs=maybe",
]  # fmt: skip
URLS = [("DATABASE_URL", url) for url in DATABASE_URLS] + [("REDIS_URL", url) for url in REDIS_URLS]
WEB = ["-m", "poisonadmin.serve", "--port", "1"]
WORKER = ["-m", "celery", "-A", "workers.celery_app", "worker", "-Q", "nobody"]


@pytest.mark.parametrize(("name", "url"), URLS)
def test_a_url_that_nobody_can_connect_with_is_refused_without_a_word_of_it(name: str, url: str) -> None:
    read = Environment.database if name == "DATABASE_URL" else partial(Environment.redis, default="")
    with pytest.raises(ImproperlyConfigured) as refused:
        read(Environment({name: url}), name)
    assert str(refused.value).startswith(f"{name} must be ")
    assert CANARY not in str(refused.value)


@pytest.mark.long
@pytest.mark.parametrize("program", [["manage.py", "check"], WEB, WORKER], ids=["check", "web", "worker"])
@pytest.mark.parametrize(("name", "url"), URLS)
def test_every_process_refuses_such_a_url_in_one_sentence(
    program: list[str], name: str, url: str, tmp_path: Path
) -> None:
    ended = _start(program, {name: url}, tmp_path)
    assert ended.returncode != 0
    [line] = ended.stderr.strip().splitlines()
    assert line.startswith(f"{name} must be ")
    assert CANARY not in ended.stderr + ended.stdout


@pytest.mark.parametrize(
    "url",
    [
        "postgres://u:p%40x@h1:1,h2:2/n",
        "postgresql://u@h1,h2/n?target_session_attrs=read-write&connect_timeout=5&application_name=a",
        "postgresql:///n?host=/var/run",
        "postgresql://u:p@[::1]:5432/n?sslmode=require",
        "postgresql://u:p%25x@h/n?options=-c%20a%3Db&sslmode=verify-full&sslrootcert=/x",
    ],
)
def test_every_url_that_postgresql_takes_is_taken_as_it_reads_it(url: str) -> None:
    found = Environment({"DATABASE_URL": url}).database("DATABASE_URL")
    wrapper = DatabaseWrapper({**found, "ATOMIC_REQUESTS": False, "TIME_ZONE": None, "CONN_MAX_AGE": 0})
    given = {name: str(value) for name, value in wrapper.get_connection_params().items()}
    said = {name: str(value) for name, value in conninfo_to_dict(url).items() if name != "client_encoding"}
    assert given | said == given


@pytest.mark.parametrize("url", ["redis://h", "redis://:p%25@h:6379/3", "rediss://u:p@[::1]/0?ssl_cert_reqs=none"])
def test_every_url_that_redis_takes_is_taken(url: str) -> None:
    assert Environment({"REDIS_URL": url}).redis("REDIS_URL", "") == url


@pytest.mark.parametrize("master", MASTERS)
def test_every_place_where_spark_runs_is_accepted(
    master: str, started: dict[tuple[str, str], "subprocess.CompletedProcess[str]"]
) -> None:
    ended = started["SPARK_MASTER", master]
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("program", [WEB, WORKER], ids=["web", "worker"])
def test_every_process_says_it_in_one_line(program: list[str], tmp_path: Path) -> None:
    ended = _start(program, {"DATABASE_URL": f"mysql://u:{CANARY}@127.0.0.1/n"}, tmp_path)
    assert ended.returncode != 0
    assert "DATABASE_URL must be postgresql://user:password@host:port/name" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert CANARY not in ended.stderr + ended.stdout


@pytest.mark.parametrize("wrong", [f"mysql://u:{CANARY}@127.0.0.1/n", f"postgresql://u:{CANARY}\n@127.0.0.1/n"])
def test_a_wrong_secret_in_a_file_is_named_in_one_line_too(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(wrong)
    ended = _start(["manage.py", "check"], {"DATABASE_URL": "", "DATABASE_URL_FILE": str(file)}, tmp_path)
    assert ended.returncode != 0
    [line] = ended.stderr.strip().splitlines()
    assert "DATABASE_URL" in line
    assert CANARY not in ended.stderr + ended.stdout


def test_the_secrets_are_read_from_files(tmp_path: Path) -> None:
    secrets = {
        "DATABASE_URL": "postgresql://u:p@127.0.0.1:5432/n",
        "REDIS_URL": f"redis://:{CANARY}@127.0.0.1/0",
        "POISONADMIN_SECRET_KEY": KEY,
    }
    files = {f"{name}_FILE": str(tmp_path / name) for name in secrets}
    for name, secret in secrets.items():
        (tmp_path / name).write_text(f"{secret}\n")
    program = "from django.conf import settings; print(settings.SECRET_KEY, settings.REDIS_URL, settings.DATABASES)"
    ended = _start(["-c", program], dict.fromkeys(secrets, "") | files, tmp_path)
    assert ended.stdout.startswith(f"{KEY} redis://:{CANARY}@127.0.0.1/0 ")
    assert "'USER': 'u', 'PASSWORD': 'p'" in ended.stdout


def _environment(changed: dict[str, str], home: Path) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("POISONADMIN_", "SPARK_"))}
    settings = {"DJANGO_SETTINGS_MODULE": "poisonadmin.settings", "POISONADMIN_HOME": str(home)}
    return known | GOOD | settings | changed


def _start(
    program: list[str], changed: dict[str, str], home: Path, given: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "ignore", *program],
        cwd=ROOT,
        env=_environment(changed, home),
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_variable_that_nobody_reads_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    typed = {"POISONADMIN_BEHIND_TSL": CANARY, "POISONADMIN_QQQQ": "1", "POISONADMIN_SAMPLE_PORT": "8010"}
    said = ["POISONADMIN_BEHIND_TSL is no setting; POISONADMIN_BEHIND_TLS is", "POISONADMIN_QQQQ is no setting"]
    checked = _start(["manage.py", "check"], typed, tmp_path)
    assert (checked.returncode, "2 issues" in checked.stderr) == (0, True)
    for program in (["manage.py", "check"], ["-c", "import poisonadmin.asgi"]):
        told = _start(program, typed, tmp_path).stderr
        assert [text for text in said if f"{text}\n" not in told] == []
        assert (CANARY in told, "SAMPLE_PORT" in told) == (False, False)


def test_a_server_that_is_away_is_passed_over_for_the_next_one(services: Services, tmp_path: Path) -> None:
    before, _, place = services.database_url.rpartition("@")
    url = f"{before}@127.0.0.1:1,{place}"
    program = (
        "import django; django.setup(); from django.db import connection as c; c.ensure_connection(); print('there')"
    )
    ended = _start(["-c", program], {"DATABASE_URL": url}, tmp_path)
    assert (ended.stdout, ended.returncode) == ("there\n", 0), ended.stderr


@pytest.mark.parametrize("sender", ["poisonadmin@localhost", "PoisonAdmin <poison@example.org>"])
def test_a_sender_is_an_address_or_a_name_with_one(sender: str) -> None:
    assert Environment({"FROM": sender}).sender("FROM", "") == sender


def test_an_archive_url_takes_every_option_that_arrow_takes() -> None:
    for option in OPTIONS:
        value = {"region": "eu-central-1", "scheme": "http", "endpoint_override": "127.0.0.1:1"}.get(option, "true")
        url = f"s3://bucket/path?region=eu-central-1&{option}={value}"
        assert archive_place({"POISONADMIN_ARCHIVE": url}, Path("/")) == url
        fs.FileSystem.from_uri(url)
    with pytest.raises(UnusableArchive, match="known: region"):
        archive_place({"POISONADMIN_ARCHIVE": "s3://bucket/path?regoin=eu-central-1"}, Path("/"))


def test_the_log_has_the_address_of_the_connection_and_none_that_a_client_makes_up() -> None:
    seen: list[object] = []
    logged = RequestMiddleware(lambda _: seen.append(get_contextvars()["ip"]) or HttpResponse())
    logged(RequestFactory().get("/", REMOTE_ADDR="198.51.100.7", headers={"X-Forwarded-For": "203.0.113.9"}))
    assert seen == ["198.51.100.7"]


def test_good_values_are_read() -> None:
    env = Environment(
        {
            "HOSTS": " example.org, .example.net ,*,[::1],10.0.0.1",
            "ORIGINS": "https://a.example.org:8443",
            "ON": "Yes",
            "OFF": "0",
            "LEVEL": "debug",
        }
    )
    assert env.hosts("HOSTS", ()) == ["example.org", ".example.net", "*", "[::1]", "10.0.0.1"]
    assert env.origins("ORIGINS") == ["https://a.example.org:8443"]
    assert (env.flag("ON"), env.flag("OFF"), env.flag("MISSING", default=True)) == (True, False, True)
    assert env.level("LEVEL", "INFO") == "DEBUG"
    assert env.redis("REDIS_URL", "redis://127.0.0.1/0") == "redis://127.0.0.1/0"
    with pytest.raises(ImproperlyConfigured, match="POISONADMIN_ALLOW_LOOPBACK must be"):
        Environment({"POISONADMIN_ALLOW_LOOPBACK": "x"}).check_reach()
