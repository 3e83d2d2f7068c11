"""The settings of the environment, variable by variable. A wrong value is named in one line; it is never shown, for it
may hold a password."""

import logging
import re
from collections import UserDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg
import redis
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import validate_email
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn

from poisonadmin.core.domain.access import Role
from poisonadmin.core.domain.archive_place import UnusableArchive, archive_place
from poisonadmin.core.domain.encryption import encryption_keys
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.secret_settings import SPARK_REMOTE, UnusableSecret, secret_setting
from poisonadmin.core.domain.ssrf import guard_from, parse_networks
from poisonadmin.destinations.domain.handler_config import (
    UnknownSandboxUser,
    UnusableHandlerPath,
    handler_directories,
    sandbox_user,
)
from poisonadmin.messages.domain.traces import InvalidTraceLinks, TraceLink, parse_links
from poisonadmin.sources.domain.roots import UnusableSourceRoots, source_roots
from poisonadmin.system.domain.sign_on import SignOn

TRUE, FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})
MAX_NAME_CHARS = 40
# As many characters as 128 random bits have in hexadecimal.
MIN_KEY_CHARS = 32
PREFIX = "POISONADMIN_"
# Read by others than the settings: the supervisor, `make demo`, `manage.py source`, the guard, the command line.
_READ_ELSEWHERE = ("SUPERVISED", "SAMPLE_PORT", "BROKER_PASSWORD", "URL", "TOKEN", "TOKEN_FILE")
_HOST = re.compile(r"(\*|\.?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])")


# The schemes of a mail server's URL, each with its usual port.
MAIL_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


@dataclass(frozen=True)
class MailServer:
    """The server that takes mail; `host` empty: none. `starts_tls`: after the greeting; `is_tls`: from the start."""

    host: str = ""
    port: int = 25
    user: str = ""
    password: str = field(default="", repr=False)
    starts_tls: bool = False
    is_tls: bool = False


class _Noted(UserDict[str, str]):
    """Variables, and the names that were asked for."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__(variables)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


class Environment:
    """The variables of a process. Each method reads one, and raises `ImproperlyConfigured` for what it cannot be."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = _Noted(variables)

    def unknown(self) -> list[str]:
        """Return a sentence of each variable of ours that nothing has asked for so far."""
        known = [name.removeprefix(PREFIX) for name in self._variables.asked if name.startswith(PREFIX)]
        known += _READ_ELSEWHERE
        names = [name.removeprefix(PREFIX) for name in self._variables if name.startswith(PREFIX)]
        nearest = {name: get_close_matches(name, known, 1) for name in sorted(set(names) - set(known))}
        return [
            f"{PREFIX}{name} is no setting" + "".join(f"; {PREFIX}{one} is" for one in near)
            for name, near in nearest.items()
        ]

    def text(self, name: str, default: str = "") -> str:
        """Return a text of one line."""
        value = self._variables.get(name, default)
        if not value.isprintable():
            raise _wrong(name, "must be printable and of one line")
        return value

    def secret(self, name: str, default: str = "") -> str:
        """Return a text of one line, from the file that `name`_FILE names or from the variable."""
        try:
            value = secret_setting(self._variables, name) or default
        except UnusableSecret as error:
            raise ImproperlyConfigured(str(error)) from None
        if not value.isprintable():
            raise _wrong(name, "must be printable and of one line")
        return value

    def secret_key(self, name: str) -> str:
        """Return a key that nobody can guess; empty where there is none."""
        key = self.secret(name)
        if key and len(key) < MIN_KEY_CHARS:
            raise _wrong(name, f"must have {MIN_KEY_CHARS} characters or more, such as `openssl rand -hex 32` prints")
        return key

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return whether a switch is on: 1, true, yes, on; 0, false, no, off."""
        word = self._variables.get(name, "true" if default else "false").strip().lower()
        if word not in TRUE | FALSE:
            raise _wrong(name, "must be true or false")
        return word in TRUE

    def badge(self, name: str, default: str) -> str:
        """Return a name that fits into a badge."""
        value = self.text(name, default).strip()
        if not 0 < len(value) <= MAX_NAME_CHARS:
            raise _wrong(name, f"must be a name of 1 to {MAX_NAME_CHARS} characters")
        return value

    def roles(self, name: str) -> list[str]:
        """Return roles, separated by commas."""
        found = self._words(name, ())
        if set(found) - set(Role):
            raise _wrong(name, f"must be roles of {', '.join(Role)}, separated by commas")
        return found

    def sign_on(self) -> SignOn | None:
        """Return the provider of single sign-on; None where no issuer is set."""
        issuer = self.text(name := "POISONADMIN_OIDC_ISSUER")
        found = SignOn(
            issuer=issuer,
            client_id=self.text("POISONADMIN_OIDC_CLIENT_ID"),
            client_secret=self.secret("POISONADMIN_OIDC_CLIENT_SECRET"),
            scopes=tuple(self.text("POISONADMIN_OIDC_SCOPES", "openid profile").split()),
            label=self.badge("POISONADMIN_OIDC_LABEL", "single sign-on"),
            name_claim=self.text("POISONADMIN_OIDC_NAME_CLAIM", "preferred_username"),
            roles_claim=self.text("POISONADMIN_OIDC_ROLES_CLAIM", "roles"),
            roles=self._roles_of_claim("POISONADMIN_OIDC_ROLES"),
            patterns_claim=self.text("POISONADMIN_OIDC_PATTERNS_CLAIM"),
        )
        if not issuer:
            return None
        parts = urlsplit(issuer)
        is_here = parts.hostname in ("127.0.0.1", "localhost", "::1")
        if not parts.hostname or parts.scheme not in (("http", "https") if is_here else ("https",)):
            raise _wrong(name, "must be https://…, as the provider spells it")
        if not found.client_id or not found.roles or "openid" not in found.scopes:
            raise _wrong(name, "needs a client id, roles of claims, and openid among the scopes")
        return found

    def _roles_of_claim(self, name: str) -> dict[str, Role]:
        pairs = [word.rpartition("=") for word in self._words(name, ())]
        if any(not value or role not in set(Role) for value, _, role in pairs):
            raise _wrong(name, f"must be such as poison-ops=operator, with roles of {', '.join(Role)}")
        return {value: Role(role) for value, _, role in pairs}

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        """Return one of some words."""
        value = self._variables.get(name, default).strip().lower()
        if value not in choices:
            raise _wrong(name, f"must be one of {', '.join(choices)}")
        return value

    def level(self, name: str, default: str) -> str:
        """Return a level of logging."""
        value = self._variables.get(name, default).strip().upper()
        if value not in logging.getLevelNamesMapping():
            raise _wrong(name, f"must be one of {', '.join(logging.getLevelNamesMapping())}")
        return value

    def audit_handler(self, name: str) -> dict[str, Any]:
        """Return the handler of the audit log's lines: `stdout`, or the end of a file that may be moved away."""
        target = self.text(name)
        if target in ("", "stdout"):
            kind = "logging.StreamHandler" if target else "logging.NullHandler"
            return {"class": kind, "formatter": "bare"} | ({"stream": "ext://sys.stdout"} if target else {})
        file = self.file(name, "must be stdout, or an absolute path in a directory that exists")
        return {"class": "logging.handlers.WatchedFileHandler", "formatter": "bare", "filename": file, "delay": True}

    def file(self, name: str, must: str = "must be an absolute path in a directory that exists") -> str:
        """Return the path of a file that may be written; empty where none is set. `must`: what a wrong one is told."""
        value = self.text(name)
        path = Path(value)
        if value and (not path.is_absolute() or not path.parent.is_dir() or path.is_dir()):
            raise _wrong(name, must)
        return value

    def hosts(self, name: str, default: Collection[str]) -> list[str]:
        """Return host names, separated by commas; `.example.org` is every name below."""
        found = self._words(name, default)
        for host in found:
            if _HOST.fullmatch(host) is None:
                raise _wrong(name, "must be host names without scheme and port, separated by commas")
        return found

    def origins(self, name: str) -> list[str]:
        """Return origins, `https://poison.example.org`, separated by commas."""
        found = self._words(name, ())
        for origin in found:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query:
                raise _wrong(name, "must be origins such as https://poison.example.org, separated by commas")
        return found

    def database(self, name: str, *, is_required: bool = True) -> dict[str, Any]:
        """Return Django's settings of the PostgreSQL database that a URL names; none where none has to be named."""
        if not (url := self.secret(name)):
            if not is_required:
                return {}
            raise _wrong(name, "is not set")
        if (found := _parsed_conninfo(url)) is None:
            raise _wrong(name, _DATABASE)
        parts = ("NAME", "dbname"), ("USER", "user"), ("PASSWORD", "password"), ("HOST", "host"), ("PORT", "port")
        database: dict[str, Any] = {setting: found.pop(part, "") for setting, part in parts}
        return {"ENGINE": "django.db.backends.postgresql", **database, "OPTIONS": found}

    def redis(self, name: str, default: str) -> str:
        """Return the URL of a Redis or Valkey server."""
        url = self.secret(name, default)
        try:
            parts = urlsplit(url)
            is_right = parts.scheme in ("redis", "rediss") and parts.hostname and parts.port != 0
            redis.ConnectionPool.from_url(url).make_connection()  # which does not connect yet
            # Celery takes no others.
            is_right = is_right and all(option.startswith("ssl_") for option, _ in parse_qsl(parts.query, True))
        except Exception:  # whatever they raise may quote the URL
            is_right = False
        if not is_right or re.fullmatch(r"/?\d{0,9}", parts.path) is None or _BLANK.search(url):
            raise _wrong(name, "must be redis://:password@host:port/0")
        return url

    def mail(self, name: str) -> MailServer:
        """Return the mail server that a URL names; none where the variable is not set."""
        if not (url := self.secret(name)):
            return MailServer()
        try:
            parts = urlsplit(url)
            port = parts.port or MAIL_PORTS[parts.scheme]
        except (ValueError, KeyError):
            raise _wrong(name, _MAIL) from None
        if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise _wrong(name, _MAIL)
        login = (unquote(parts.username or ""), unquote(parts.password or ""))
        return MailServer(parts.hostname, port, *login, parts.scheme == "smtp+starttls", parts.scheme == "smtps")

    def sender(self, name: str, default: str) -> str:
        """Return the sender of mails: an address, or a name with one."""
        value = self.text(name, default)
        try:
            validate_email(parseaddr(value)[1])
        except ValidationError:
            raise _wrong(name, "must be an address such as PoisonAdmin <poison@example.org>") from None
        return value

    def public_url(self, name: str) -> str:
        """Return an origin such as `https://poison.example.org`, empty where none is set."""
        value = self.text(name).strip().rstrip("/")
        if value and (len(found := self.origins(name)) != 1 or found[0].rstrip("/") != value):
            raise _wrong(name, "must be one origin such as https://poison.example.org")
        return value

    def trace_links(self, name: str) -> tuple[TraceLink, ...]:
        """Return link templates to logs and traces, such as `Logs=https://logs.example.org/?q={trace_id}`."""
        try:
            return parse_links(self.text(name))
        except InvalidTraceLinks as error:
            raise _wrong(name, str(error)) from None

    def check_reach(self) -> None:
        """Check what destinations may reach, where handlers are and whom they run as, and what encrypts secrets; all is
        read again where it is used."""
        self.flag("POISONADMIN_ALLOW_LOOPBACK")
        try:
            guard_from(self._variables)
        except PoisonAdminError:
            raise _wrong("POISONADMIN_ALLOWED_NETWORKS", _NETWORKS) from None
        try:
            handler_directories(self._variables)
            sandbox_user(self._variables)
            encryption_keys(self._variables)
        except (UnusableHandlerPath, UnknownSandboxUser, UnusableSecret) as error:
            raise ImproperlyConfigured(str(error).rstrip(".")) from None

    def source_roots(self, home: Path) -> tuple[Path, ...]:
        """Return the directories below which directory sources may be."""
        try:
            return source_roots(self._variables, home)
        except UnusableSourceRoots as error:
            raise ImproperlyConfigured(str(error).rstrip(".")) from None

    def archive(self, home: Path) -> str:
        """Return the directory or URL of the archive."""
        try:
            return archive_place(self._variables, home)
        except UnusableArchive as error:
            raise ImproperlyConfigured(str(error)) from None

    def check_spark(self) -> None:
        """Check where Spark's jobs are to run."""
        master, remote = self._variables.get("SPARK_MASTER", ""), self.secret(SPARK_REMOTE)
        if master and re.match(r"local(-cluster)?(\[|$)|spark://.|k8s://.|yarn$", master) is None:
            raise _wrong("SPARK_MASTER", "must be local[N,4], spark://host:port, k8s://… or yarn")
        if remote and not remote.startswith("sc://"):
            raise _wrong("SPARK_REMOTE", "must be sc://host:15002")
        for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
            if (path := self._variables.get(name)) and "/" in path and not Path(path).expanduser().exists():
                raise _wrong(name, "names a path that does not exist")

    def port(self, name: str, default: int) -> int:
        """Return the number of a port."""
        return self.number(name, default, most=65535)

    def number(self, name: str, default: int, *, most: int) -> int:
        """Return a whole number from 1 to `most`."""
        word = self._variables.get(name) or str(default)
        if not (word.isascii() and word.isdecimal() and len(word) < 10 and 0 < int(word) <= most):
            raise _wrong(name, f"must be a number from 1 to {most}")
        return int(word)

    def networks(self, name: str) -> list[str]:
        """Return networks in CIDR form, separated by commas."""
        try:
            return [str(network) for network in parse_networks(self._variables.get(name, ""))]
        except PoisonAdminError:
            raise _wrong(name, _NETWORKS) from None

    def _words(self, name: str, default: Collection[str]) -> list[str]:
        if name not in self._variables:
            return [*default]
        return [word for part in self._variables[name].split(",") if (word := part.strip())]


_MAIL = "must be smtp://, smtp+starttls:// or smtps://user:password@host:port"
_NETWORKS = "must be networks such as 10.1.0.0/16, separated by commas"
_DATABASE = "must be postgresql://user:password@host:port/name"
_BLANK = re.compile(r"\s")
_WHOLE_NUMBERS = ("connect_timeout", "tcp_user_timeout", "keepalives")


def _parsed_conninfo(url: str) -> dict[str, Any] | None:
    """Return what a URL of PostgreSQL says, as libpq reads it; None where no connection can be made with it."""
    if not url.startswith(("postgresql://", "postgres://")) or _BLANK.search(url):
        return None
    try:
        found = conninfo_to_dict(url)
        # Values are checked when a connection begins: this one would be to a socket that cannot be there.
        nowhere: dict[str, Any] = {**found, "host": "/dev/null", "hostaddr": None, "port": "1"}
        tried = PGconn.connect_start(make_conninfo(**nowhere).encode())
        is_right = tried.error_message.startswith(b"connection to server")
    except (psycopg.Error, ValueError):
        return None
    numbers = [value for option, value in found.items() if option.startswith(_WHOLE_NUMBERS)]
    ports, hosts = str(found.get("port", 5432)).split(","), str(found.get("host", "")).split(",")
    is_right &= all(str(one).isdecimal() for one in numbers) and len(ports) in (1, len(hosts))
    is_right &= all(not one or (one.isdecimal() and 0 < int(one) < 65536) for one in ports) and bool(
        found.get("dbname")
    )
    return found if is_right else None


def _wrong(name: str, why: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name} {why}")
