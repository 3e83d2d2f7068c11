"""Where a secret of an installation could come to light, and what stands there now: name of the place -> its bytes."""

import http.cookiejar
import re
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.whole_system.installation import Installation

Found = Iterator[tuple[str, bytes]]
# Where secrets are at home: readable by their owner alone, which the test asserts.
PRIVATE = (
    "secrets/",
    "secret-key",
    "postgres-password",
    "postgres-superuser-password",
    "valkey-password",
    "admin-token",
)
PRIVATE += ("valkey/valkey.conf", "planted/")
# What tells pages of a kind apart: numbers in the path, and what is asked for.
_WHICH = re.compile(r"(?<=/)\d+(?=/)|\?.*")
_LINK = re.compile(rb"""(?:href|hx-get|data-url)="(/[^"#]*)""")
# Lists have links to many pages of a kind; so many of each are followed.
_OF_A_KIND = 6


def processes(installation: Installation) -> list[psutil.Process]:
    """Return the supervisor and everything that descends from it, or that it started."""
    supervisor = psutil.Process(installation.process.pid)
    return list({supervisor, *supervisor.children(recursive=True), *installation.left()})


def command_lines_and_environments(installation: Installation) -> Found:
    """Yield what `ps` and `/proc` show of every process."""
    for process in processes(installation):
        for kind in ("cmdline", "environ"):
            try:
                yield f"{kind} of {process.pid}", Path(f"/proc/{process.pid}/{kind}").read_bytes()
            except OSError:  # it has ended
                continue


def files(home: Path) -> Found:
    """Yield every file of the home but for the database's and those that are there to hold a secret."""
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if path.is_file() and not name.startswith(("postgres/", "staticfiles/", *PRIVATE)):
            yield name, path.read_bytes()


def private_files(home: Path) -> list[Path]:
    """Return the files that hold secrets."""
    return [path for path in home.rglob("*") if path.is_file() and str(path.relative_to(home)).startswith(PRIVATE)]


def answers(installation: Installation) -> Found:
    """Yield what each GET of the API answers, with the ids of what there is in the place of its parameters."""
    paths = [path for path, methods in installation.get("schema/")["paths"].items() if "get" in methods]
    ids: dict[str, list[object]] = {}
    for path in sorted(paths, key=lambda path: path.count("{")):
        if path.endswith("/stream/") or "/events/" in path:
            continue
        collection = path.partition("{")[0]
        for value in ids.get(collection, [])[:5] if "{" in path else [None]:
            filled = re.sub(r"\{[^}]+\}", urllib.parse.quote(str(value), safe=""), path, count=1)
            answer = installation.ask("GET", re.sub(r"\{[^}]+\}", "1", filled))
            yield filled, answer.body
            if "{" not in path and answer.status == 200 and "json" in answer.headers.get("Content-Type", ""):
                rows = answer.json.get("results", []) if isinstance(answer.json, dict) else []
                ids[path] = [row[key] for row in rows for key in ("id", "name", "address") if row.get(key)]


def logged_in(installation: Installation, user: str, password: str) -> tuple[urllib.request.OpenerDirector, bool]:
    """Return a browser that has filled in the form, and whether it is in."""
    base = f"http://127.0.0.1:{installation.port}"
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar))
    form = browser.open(f"{base}/accounts/login/").read()
    token = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token is not None
    fields = {"login": user, "password": password, "csrfmiddlewaretoken": token[1].decode()}
    answer = browser.open(f"{base}/accounts/login/", urllib.parse.urlencode(fields).encode())
    return browser, "accounts/login" not in answer.url


def pages(installation: Installation, user: str, password: str) -> Found:
    """Log in as the user and yield each page that a link leads to, from the first one on; downloads too."""
    base = f"http://127.0.0.1:{installation.port}"
    browser, is_in = logged_in(installation, user, password)
    assert is_in
    waiting, seen, kinds = deque(["/"]), {"/"}, Counter[str]()
    while waiting:
        place = waiting.popleft()
        try:
            body = browser.open(f"{base}{place}", timeout=30).read()
        except urllib.error.HTTPError as error:
            body = error.read()
        yield place, body
        for link in _LINK.findall(body):
            path = link.decode().replace("&amp;", "&")
            kind = _WHICH.sub("", path)
            if path in seen or path.startswith(("/static/", "/accounts/", "/events", "//")):
                continue
            if kinds[kind] < _OF_A_KIND:
                kinds[kind] += 1
                seen.add(path)
                waiting.append(path)
