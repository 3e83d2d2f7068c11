"""Routes of the API: each feature's `api` has its own, under /api/v1/."""

from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver, path, register_converter
from rest_framework.views import APIView

from poisonadmin.core.domain.filter_values import MAX_ID


class IdConverter:
    """A database id in a path."""

    regex = "[0-9]{1,19}"

    def to_python(self, text: str) -> int:
        """Return the number; raise ValueError (no such page) beyond what the database can hold."""
        if (number := int(text)) > MAX_ID:
            raise ValueError(text)
        return number

    def to_url(self, number: int) -> str:
        """Return the digits."""
        return str(number)


register_converter(IdConverter, "id")


def route(pattern: str, view: type[APIView], *, name: str) -> URLPattern:
    """Return the route of a view; `<id:…>` in the pattern is a database id."""
    return path(pattern, view.as_view(), name=name)


def api_routes() -> Iterator[URLPattern]:
    """Yield every route under /api/v1/, in the order in which they are tried."""
    (api,) = [part for part in get_resolver().url_patterns if str(part.pattern) == "api/v1/"]
    yield from routes_of(api)


def routes_of(part: URLPattern | URLResolver) -> Iterator[URLPattern]:
    """Yield the routes that a part of the URL configuration comes to."""
    if isinstance(part, URLPattern):
        yield part
        return
    for inner in part.url_patterns:
        yield from routes_of(inner)
