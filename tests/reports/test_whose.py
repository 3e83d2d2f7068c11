"""Who sees a report: its user, by whatever session or token, as far as these may see its rows."""

from collections.abc import Callable, Sequence

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from poisonadmin.core.commands.authentication import authenticate, principal_of_user
from poisonadmin.core.domain.access import SYSTEM, Permission, Principal, Role
from poisonadmin.core.domain.errors import NotFound
from poisonadmin.reports.commands.requests import request_report
from poisonadmin.reports.domain.asked import asked_report
from poisonadmin.reports.queries.reports import get_report, list_reports
from poisonadmin.store.models.access import ApiToken
from poisonadmin.system.commands.accounts import create_token
from tests.fixtures.api import make_user

pytestmark = pytest.mark.django_db


def by_session(user: User) -> Principal:
    found = principal_of_user(user)
    assert found is not None
    return found


def by_token(
    user: User, *, scopes: Sequence[Permission] = tuple(Permission), patterns: Sequence[str] = ()
) -> Principal:
    found = authenticate(create_token(user, f"ci {patterns}", scopes=scopes, by="test", patterns=patterns).text)
    assert found is not None
    return found[1]


def asked_by(principal: Principal, *columns: str) -> int:
    return request_report(asked_report("failures", format="csv", columns=columns), principal=principal)


def seen_by(principal: Principal) -> set[int]:
    return {row.id for row in list_reports(principal=principal).results}


def test_a_user_sees_what_they_asked_for_by_session_and_by_token() -> None:
    eve, bob = make_user("eve", Role.OPERATOR, []), make_user("bob", Role.ADMIN, [])
    session, token, other_token = by_session(eve), by_token(eve), by_token(eve)
    both = {asked_by(session), asked_by(token)}
    assert seen_by(session) == seen_by(token) == seen_by(other_token) == both
    ApiToken.objects.update(revoked_at="2026-01-01T00:00:00Z")
    assert seen_by(session) == both
    assert seen_by(by_session(bob)) == seen_by(by_token(bob)) == seen_by(SYSTEM) == set()
    own = asked_by(SYSTEM)
    assert seen_by(SYSTEM) == {own}
    assert seen_by(session) == both


def test_a_token_of_fewer_addresses_or_without_payloads_sees_no_more_than_it_may_ask_for() -> None:
    eve = make_user("eve", Role.OPERATOR, ["orders.#", "bills.#"])
    session, narrow = by_session(eve), by_token(eve, patterns=["orders.eu"])
    blind = by_token(eve, scopes=[Permission.READ, Permission.EXPORT])
    wide, narrowed, payloads = asked_by(session), asked_by(narrow), asked_by(session, "payload")
    assert seen_by(session) == {wide, narrowed, payloads}
    assert seen_by(narrow) == {narrowed}
    assert seen_by(blind) == {wide, narrowed}
    with pytest.raises(NotFound):
        get_report(wide, principal=narrow)


def test_who_is_limited_to_part_of_a_pattern_since_sees_the_report_no_more() -> None:
    eve = make_user("eve", Role.OPERATOR, ["orders.#", "bills.#"])
    asked_by(by_session(eve))
    eve.access.address_patterns = ["orders.#"]
    eve.access.save(update_fields=["address_patterns"])
    assert seen_by(by_session(eve)) == set()


def test_a_report_asked_for_with_a_token_is_on_the_page_of_its_user(browser_of: Callable[[str], Client]) -> None:
    browser = browser_of("operator")
    report_id = asked_by(by_token(User.objects.get(username="operator")))
    page = browser.get(reverse("reports")).content.decode()
    assert f"#{report_id}" in page
    assert "operator via ci" in page
