"""The routes of the features: whatever the order in which they are tried, one URL leads to one page."""

from django.urls import Resolver404, URLPattern, URLResolver
from django.urls.converters import get_converters

from poisonadmin.urls import API, PAGES
from tests.fixtures.pages import routes_of

# A value for each converter that a route may have, and one that another route might take for its own word.
VALUES = {"id": ("7",), "int": ("7",), "str": ("alike", "new", "7"), "slug": ("alike", "new"), "path": ("a/b",)}


def urls_of(route: URLPattern) -> set[str]:
    """Return URLs that the route is for."""
    found = {str(route.pattern)}
    names = {type(converter): name for name, converter in get_converters().items()}
    for name, converter in route.pattern.converters.items():
        kind = names[type(converter)]
        texts = {f"<{kind}:{name}>", f"<{name}>"}
        values = VALUES.get(kind, ("7",))
        found = {url.replace(text, value) for url in found for text in texts if text in url for value in values}
    return found


def taken_by(parts: list[URLPattern | URLResolver], url: str) -> list[str]:
    """Return the name of the route in each module that would take a URL."""
    found = []
    for part in parts:
        try:
            match = part.resolve(url)
        except Resolver404:
            continue
        if match is not None and match.url_name:
            found.append(match.url_name)
    return found


def test_no_two_features_take_one_url() -> None:
    for parts in (API, PAGES):
        urls = {url for part in parts for route in routes_of(part) if route.name for url in urls_of(route)}
        assert len(urls) > 100
        assert {url: names for url in urls if len(names := taken_by(list(parts), url)) != 1} == {}


def test_a_url_that_two_modules_take_is_found() -> None:
    assert taken_by([*PAGES, *PAGES], "jobs/") == ["jobs", "jobs"]
