"""What may be configured as an HTTP destination, and that each refusal names its field."""

import pytest

from poisonadmin.core.domain.ssrf import NetworkGuard
from poisonadmin.destinations.domain.http_config import (
    InvalidDestination,
    validate_headers,
    validate_http_config,
    validate_url,
)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "https://example.org/",
        "https://hooks.example.org:8443/in/put?kind=1&x=%20",
        "http://127.0.0.1:9001/hook",
        "http://[::1]:9001/hook",
        "http://localhost:9001",
        "https://xn--bcher-kva.example/",
    ],
)
def test_plain_urls_are_taken_as_they_are(url):
    assert validate_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        7,
        "example.org",
        "//example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http://user:canary@example.org/",
        "http://user@example.org/",
        "http://example.org@169.254.169.254/",
        "http://example.org/#fragment",
        "http://example.org/a b",
        "http://example.org/\r\nHost: other",
        "http://example.org\\@evil.example/",
        "http://exa\u006dple。org/",
        "http://１２７.0.0.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.0.0.1./",
        "http://127%2e0.0.1/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://example.org:0/",
        "http://example.org:70000/",
        "http://example.org:http/",
        "http://a..b/",
        "http://" + "a" * 64 + ".example/",
        "http://example.org/" + "a" * 2048,
    ],
)
def test_other_urls_are_refused(url):
    with pytest.raises(InvalidDestination) as caught:
        validate_url(url)
    assert caught.value.field == "url"
    assert "canary" not in caught.value.detail


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]"])
def test_no_setting_is_suggested_for_an_address_that_none_allows(host):
    with pytest.raises(InvalidDestination, match="no setting allows it") as caught:
        validate_url(f"http://{host}/", guard=NetworkGuard())
    assert "POISONADMIN" not in caught.value.detail


@pytest.mark.parametrize("host", ["10.0.0.1", "127.0.0.1", "[::ffff:10.0.0.1]"])
def test_a_forbidden_address_in_a_url_is_refused_when_it_is_saved(host):
    with pytest.raises(InvalidDestination, match="POISONADMIN_ALLOWED_NETWORKS"):
        validate_url(f"http://{host}/", guard=NetworkGuard())


def test_loopback_is_taken_where_the_guard_allows_it():
    assert validate_url("http://127.0.0.1:1/", guard=NetworkGuard(allow_loopback=True))


def test_a_full_configuration_comes_back_as_it_was_given():
    config = {
        "url": "https://example.org/in",
        "method": "PUT",
        "headers": {"X-Team": "payments"},
        "timeout_ms": 5000,
        "concurrency": 8,
        "verify_tls": False,
        "copy_headers": ["x-*", "Subject"],
    }
    assert validate_http_config(config) == config


def test_only_what_was_set_comes_back():
    assert validate_http_config({"url": "http://example.org/", "method": "put"}) == {
        "url": "http://example.org/",
        "method": "PUT",
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "GET"),
        ("method", "POST\r\n"),
        ("method", 1),
        ("headers", []),
        ("headers", {"Host": "x"}),
        ("headers", {"Content-Length": "1"}),
        ("headers", {"Transfer-Encoding": "chunked"}),
        ("headers", {"Content-Type": "text/plain"}),
        ("headers", {"PoisonAdmin-Attempt": "1"}),
        ("headers", {"Proxy-Authorization": "x"}),
        ("headers", {"X-A": "a\r\nX-B: b"}),
        ("headers", {"X-A": "a\0"}),
        ("headers", {"X A": "a"}),
        ("headers", {"X-A:": "a"}),
        ("headers", {"": "a"}),
        ("headers", {"X-A": 1}),
        ("headers", {"X-A": "1", "x-a": "2"}),
        ("headers", {f"X-{n}": "1" for n in range(51)}),
        ("timeout_ms", 0),
        ("timeout_ms", 300_001),
        ("timeout_ms", True),
        ("timeout_ms", "1000"),
        ("timeout_ms", 1000.0),
        ("concurrency", 0),
        ("concurrency", 513),
        ("verify_tls", 1),
        ("copy_headers", "x-*"),
        ("copy_headers", ["a b"]),
        ("copy_headers", [1]),
        ("crash_on", "timeout"),
        ("crash_on", True),
        ("crash_on", ["connection_lost"]),
        ("allow_private", True),
    ],
)
def test_what_cannot_be_used_is_refused_and_its_field_named(field, value):
    with pytest.raises(InvalidDestination) as caught:
        validate_http_config({"url": "http://example.org/", field: value})
    assert caught.value.field == field
    assert caught.value.code == "invalid_destination"


def test_a_destination_without_a_url_is_refused():
    with pytest.raises(InvalidDestination, match="url: is missing"):
        validate_http_config({})


def test_a_refused_secret_is_not_repeated():
    with pytest.raises(InvalidDestination) as caught:
        validate_headers({"Authorization": "canary\n"}, field="secrets")
    assert "canary" not in caught.value.detail
    assert caught.value.field == "secrets"


@pytest.mark.parametrize("value", [None, "connection_lost"])
def test_a_lost_connection_counts_as_a_crash_where_that_is_said(value):
    config = {"url": "https://example.org/", "crash_on": value}
    assert validate_http_config(config) == config
