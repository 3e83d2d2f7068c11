"""Where a destination may not point, whatever way the address is written."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.core.domain.ssrf import (
    InvalidNetwork,
    NetworkGuard,
    forbidden,
    guard_from,
    odd_spelling,
    parse_networks,
)

EVERYTHING = parse_networks("0.0.0.0/0 ::/0")

NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::ffff:0:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:5601:5601",
    "2a00:1450::5efe:a9fe:a9fe",
    "2a00:1450::200:5efe:a9fe:a9fe",
]
UNLESS_ALLOWED = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "fc00::1",
    "fd12:3456::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "100::1",
    "2002:808:808::1",
    "::8.8.8.8",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
]
LOOPBACK = ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"]
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2a00:1450:4001::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8", "100.128.0.1"]


@pytest.mark.parametrize("ip", NEVER)
def test_some_addresses_stay_shut_whatever_the_allow_list_says(ip):
    assert forbidden(ip)
    assert forbidden(ip, allow=EVERYTHING, allow_loopback=True)


@pytest.mark.parametrize("ip", UNLESS_ALLOWED)
def test_special_ranges_are_shut_unless_the_allow_list_opens_them(ip):
    assert forbidden(ip)
    assert forbidden(ip, allow_loopback=True)
    assert forbidden(ip, allow=EVERYTHING) is None


@pytest.mark.parametrize("ip", LOOPBACK)
def test_loopback_is_shut_unless_it_is_allowed(ip):
    assert forbidden(ip)
    assert forbidden(ip, allow_loopback=True) is None


@pytest.mark.parametrize("ip", PUBLIC)
def test_public_addresses_are_open(ip):
    assert forbidden(ip) is None


@pytest.mark.parametrize("text", ["", "example.org", "1.2.3", "0x7f.1", "1.2.3.4.5", "::g", "127.0.0.01"])
def test_what_is_no_address_is_refused(text):
    assert "is not an IP address" in (forbidden(text, allow=EVERYTHING) or "")


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_as_forbidden_when_it_is_carried_in_ipv6(ip):
    if forbidden(str(ip), allow_loopback=True):
        for prefix in ("::ffff:", "64:ff9b::", "::ffff:0:", "::"):
            carried = ipaddress.IPv6Address(f"{prefix}{ip}")
            if not carried.is_loopback:
                assert forbidden(str(carried), allow_loopback=True), carried


@given(st.ip_addresses())
def test_what_python_calls_not_global_is_never_open(ip):
    if not ip.is_global:
        assert forbidden(str(ip))


@pytest.mark.parametrize(
    "host", ["0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "127.1", "127.0.1", "1.2.3.4.", "0", "a.0x1", "0x"]
)
def test_an_ipv4_address_in_disguise_is_refused(host):
    assert odd_spelling(host)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "example.org", "example.org.", "::1", "x1", "0x7g", "1.example", "localhost"]
)
def test_names_and_plain_addresses_pass_as_spellings(host):
    assert odd_spelling(host) is None


def test_the_guard_reads_its_two_variables():
    guard = guard_from({"POISONADMIN_ALLOWED_NETWORKS": "10.0.0.0/8,fd12::/16", "POISONADMIN_ALLOW_LOOPBACK": "1"})
    assert guard == NetworkGuard(parse_networks("10.0.0.0/8 fd12::/16"), allow_loopback=True)
    assert guard.forbidden("10.9.9.9") is None
    assert guard.forbidden("127.0.0.1") is None
    assert guard.forbidden("192.168.0.1") == "192.168.0.1 is private"
    assert guard_from({}) == NetworkGuard()


@pytest.mark.parametrize("text", ["10.0.0.1/8", "localhost", "10.0.0.0/33"])
def test_a_mistyped_allow_list_is_refused(text):
    with pytest.raises(InvalidNetwork, match="is not a network"):
        parse_networks(text)
