"""A Keycloak of the tests' own: two realms with a client and a person, and what its administrator changes."""

import html
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from poisonadmin.embedded.java import java_home
from poisonadmin.embedded.ports import free_port
from tests.system.ensure_keycloak import ensure_keycloak

CLIENT, SECRET, PASSWORD = "poison", "s3cret", "correct-horse-battery"
_START_SECONDS = 600
# A claim of the ID token, which Keycloak gives to the access token alone unless it is told.
_IN_ID_TOKEN = {"id.token.claim": "true", "multivalued": "true", "jsonType.label": "String"}
_MAPPERS = [
    {
        "name": "roles",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-usermodel-realm-role-mapper",
        "config": _IN_ID_TOKEN | {"claim.name": "realm_access.roles"},
    },
    {
        "name": "addresses",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-usermodel-attribute-mapper",
        "config": _IN_ID_TOKEN | {"claim.name": "addresses", "user.attribute": "addresses"},
    },
]


def _realm(name: str, **more: Any) -> dict[str, Any]:
    client = {"secret": SECRET, "redirectUris": ["*"], "protocolMappers": _MAPPERS}
    profile = json.dumps(
        {"attributes": [{"name": "username"}, {"name": "email"}], "unmanagedAttributePolicy": "ENABLED"}
    )
    person = {
        "username": "ann",
        "email": "ann@example.org",
        "emailVerified": True,
        "enabled": True,
        "credentials": [{"type": "password", "value": PASSWORD}],
        "realmRoles": ["ops"],
        "attributes": {"addresses": ["orders.#"]},
    }
    return {
        "realm": name,
        "enabled": True,
        "sslRequired": "none",
        "roles": {"realm": [{"name": one} for one in ("ops", "heads")]},
        "clients": [client | {"clientId": one} for one in (CLIENT, "another")],
        "users": [person],
        "components": {
            "org.keycloak.userprofile.UserProfileProvider": [
                {"providerId": "declarative-user-profile", "config": {"kc.user.profile.config": [profile]}}
            ]
        },
        **more,
    }


@dataclass(frozen=True)
class Keycloak:
    """Where it listens, and the password of its administrator."""

    url: str
    admin_password: str

    def issuer(self, realm: str = "main") -> str:
        """Return the issuer of a realm, as its tokens name it."""
        return f"{self.url}/realms/{realm}"

    def come_back(self, link: str) -> dict[str, str]:
        """Log in at the page that a link leads to; return what the browser is sent back with."""
        browser = _direct()
        form = re.search(r'action="([^"]+)"', browser.get(link, timeout=60).text)
        assert form is not None
        for cookie in browser.cookies:
            cookie.secure = False  # a browser trusts this machine
        sent = {"username": "ann", "password": PASSWORD}
        answer = browser.post(html.unescape(form[1]), sent, allow_redirects=False, timeout=60)
        assert answer.status_code == 302, answer.text
        query = urlsplit(answer.headers["Location"]).query
        return dict(pair.split("=", 1) for pair in query.split("&"))

    def give_roles(self, *names: str) -> None:
        """Give the person these roles in place of those that it has."""
        roles = f"users/{self._person()['id']}/role-mappings/realm"
        known = {one["name"]: one for one in self._ask("GET", "roles")}
        self._ask("DELETE", roles, [known[name] for name in ("ops", "heads")])
        self._ask("POST", roles, [known[name] for name in names])

    def give_addresses(self, *patterns: str) -> None:
        """Give the person these address patterns."""
        person = self._person()
        self._ask("PUT", f"users/{person['id']}", person | {"attributes": {"addresses": list(patterns)}})

    def _person(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", "users?username=ann&exact=true")[0]
        return found

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        sent = {
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": "admin",
            "password": self.admin_password,
        }
        token = _direct().post(f"{self.issuer('master')}/protocol/openid-connect/token", sent, timeout=60).json()
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        answer = _direct().request(
            method, f"{self.url}/admin/realms/main/{path}", json=body, headers=headers, timeout=60
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None


def _direct() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # no proxy on the way to this machine
    return session


@contextmanager
def running_keycloak(directory: Path) -> Iterator[Keycloak]:
    """Run it in a copy of its distribution: it writes beside its programs. `main`: its realm; `else`: names another
    issuer."""
    home = directory / "keycloak"
    shutil.copytree(ensure_keycloak(), home)
    imported = home / "data" / "import"
    imported.mkdir(parents=True)
    for realm in (_realm("main"), _realm("else", attributes={"frontendUrl": "http://elsewhere.example.org"})):
        (imported / f"{realm['realm']}.json").write_text(json.dumps(realm))
    port = free_port()
    found = Keycloak(f"http://127.0.0.1:{port}", secrets.token_hex(16))
    environment = os.environ | {
        "JAVA_HOME": str(java_home(directory, os.environ)),
        "KC_BOOTSTRAP_ADMIN_USERNAME": "admin",
        "KC_BOOTSTRAP_ADMIN_PASSWORD": found.admin_password,
        "JAVA_OPTS_APPEND": "-Xmx512m -XX:TieredStopAtLevel=1",
    }
    options = [f"--http-port={port}", "--http-host=127.0.0.1", "--http-management-port", str(free_port())]
    command = ["sh", str(home / "bin" / "kc.sh"), "start-dev", *options, "--import-realm", "--db=dev-mem"]
    log = directory / "keycloak.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True) as process,
    ):
        try:
            _await(found, process, log)
            yield found
        finally:
            os.killpg(process.pid, 15)


def _await(found: Keycloak, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            if _direct().get(f"{found.issuer()}/.well-known/openid-configuration", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.5)
