"""The HTTP API as the command line asks it: JSON in, JSON out, and errors with a status for the shell."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

URL, TOKEN, TOKEN_FILE = "POISONADMIN_URL", "POISONADMIN_TOKEN", "POISONADMIN_TOKEN_FILE"
LOCAL = "http://127.0.0.1:8000"
REFUSED, NO_ANSWER = 3, 4
TIMEOUT_SECONDS = 60


class RequestFailed(Exception):
    """Raised when nothing came of a request. `status`: with which the command exits, `REFUSED` or `NO_ANSWER`."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer: followed, it would take the token to another host."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


_OPENER = urllib.request.build_opener(_NoRedirects)


class Api:
    """The API of an installation."""

    def __init__(self, url: str, token: str) -> None:
        self._base = f"{url.rstrip('/')}/api/v1/"
        self._token = token

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Api":
        """Return that of `POISONADMIN_URL`, with the token of `POISONADMIN_TOKEN` or of the file of `…_FILE`.

        Errors: `RequestFailed`.
        """
        token = environment.get(TOKEN, "")
        if path := environment.get(TOKEN_FILE, ""):
            try:
                token = Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise RequestFailed(f"{TOKEN_FILE}: {error}", REFUSED) from None
        if len(token.split()) > 1:
            raise RequestFailed("The token has white space in it.", REFUSED)
        if not token.strip():
            raise RequestFailed(
                f"Set {TOKEN}, or {TOKEN_FILE} to a file with it: the page of an account makes tokens.", REFUSED
            )
        return cls(environment.get(URL, "") or LOCAL, token.strip())

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return what is at a path. Errors: `RequestFailed`."""
        return _parsed(self.raw("GET", _with(path, query)))

    def post(self, path: str, body: Any) -> Any:
        """Send an object and return the answer. Errors: `RequestFailed`."""
        return _parsed(self.raw("POST", path, body))

    def pages(self, path: str, query: Mapping[str, Any], most: int) -> Iterator[Any]:
        """Yield the first so many objects of a list. Errors: `RequestFailed`."""
        url: str | None = _with(path, {**query, "limit": min(most, 200)})
        while url is not None and most > 0:
            page = _parsed(self.raw("GET", url))
            if "results" not in page:
                raise RequestFailed(f"{self._base} gives no list: is it PoisonAdmin?", NO_ANSWER)
            yield from page["results"][:most]
            most -= len(page["results"])
            url = page["next"]

    def raw(self, method: str, path: str, body: Any = None) -> bytes:
        """Send a request and return the body of its answer. Errors: `RequestFailed`."""
        # Links of a list are whole addresses; as many as a proxy makes of them, the place asked is ours.
        place = self._base + path.partition("/api/v1/")[2] if "/api/v1/" in path else self._base + path
        headers = {
            "Authorization": f"Bearer {self._token}",
            "User-Agent": "poisonctl",
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(place, data, headers, method=method)  # noqa: S310
            with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise RequestFailed(
                    _described(error.code, error.read()), REFUSED if error.code < 500 else NO_ANSWER
                ) from None
        except (OSError, ValueError, HTTPException) as error:
            raise RequestFailed(f"{self._base} does not answer: {getattr(error, 'reason', error)}", NO_ANSWER) from None
        return content


def _parsed(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RequestFailed("The answer is no JSON object: is it PoisonAdmin?", NO_ANSWER)
    return found


def _with(path: str, query: Mapping[str, Any] | None) -> str:
    asked = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(asked, doseq=True)}" if asked else path


def _described(status: int, body: bytes) -> str:
    try:
        problem = json.loads(body)
        fields = "".join(f"\n{one['field']}: {one['detail']}" for one in problem.get("errors", ()))
        return f"{problem['detail']}{fields} ({status} {problem['code']})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{status}: {body[:200].decode(errors='replace')}"


def environment() -> Mapping[str, str]:
    """Return the variables of this process."""
    return os.environ
