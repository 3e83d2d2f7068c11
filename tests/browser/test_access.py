"""People and access in Chromium: an account with role, addresses and token; a passkey as the second factor."""

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect

from poisonadmin.core.domain.access import Role
from poisonadmin.store.models.access import Access, ApiToken
from tests.browser.axe import violations
from tests.browser.conftest import PASSWORD
from tests.browser.connect_walk import Clicks
from tests.web.test_second_factors import code_now

PATHS = (
    "/people/",
    "/people/new/",
    "/people/ada/",
    "/you/",
    "/accounts/2fa/",
    "/accounts/2fa/totp/activate/",
    "/accounts/login/",
)


def logged_in_page(chromium: Browser, base: str, name: str, **how: object) -> Page:
    """Return a page of somebody who has sent the form of the login."""
    page = chromium.new_context(base_url=base.replace("127.0.0.1", "localhost"), **how).new_page()  # type: ignore[arg-type]
    page.goto("/accounts/login/")
    page.fill("input[name=login]", name)
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    return page


def make_admin() -> None:
    Access.objects.create(user=User.objects.create_user("ada", password=PASSWORD), role=Role.ADMIN)


def test_a_new_colleague_gets_account_role_addresses_and_token(
    transactional_db: None, server: str, chromium: Browser
) -> None:
    make_admin()
    page = logged_in_page(chromium, server, "ada")
    click = Clicks(page)
    click(role="link", name="System")
    click(role="link", name="People and access")
    click(role="link", name="New account")
    page.fill("#name", "nora")
    click.choose("Role", "operator")
    page.fill("#patterns", "orders.#\nbills.#")
    click(role="button", name="Create")
    expect(page.get_by_role("heading", level=1)).to_contain_text("nora")
    assert Access.objects.get(user__username="nora").address_patterns == ["orders.#", "bills.#"]
    click.open_menu("New token…")
    page.fill("#label", "nightly")
    click(role="button", name="Create the token")
    assert "pa_" in page.inner_text("#content code")
    assert click.count <= 8
    assert ApiToken.objects.get(user__username="nora").name == "nightly"
    page.click("text=To the account")
    page.click("text=Link to set a password")
    link = page.inner_text("#content code")
    page.context.close()
    person = chromium.new_context().new_page()
    person.goto(link)
    person.fill("#id_new_password1", PASSWORD)
    person.fill("#id_new_password2", PASSWORD)
    person.click("button[type=submit]")
    assert person.url.endswith("/accounts/login/")
    person.context.close()


def test_a_passkey_is_the_second_factor(transactional_db: None, server: str, chromium: Browser) -> None:
    make_admin()
    page = logged_in_page(chromium, server, "ada")
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    page.goto("/accounts/2fa/webauthn/add/")
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_selector("#passkey")
    page.wait_for_load_state()  # the script takes clicks from here on
    page.click("#passkey")
    page.wait_for_url("**/accounts/2fa/recovery-codes/")
    page.goto("/")
    page.context.clear_cookies()
    page.goto("/accounts/login/")
    page.fill("input[name=login]", "ada")
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url("**/accounts/2fa/authenticate/")
    page.goto("/people/")
    assert page.url.endswith("/accounts/2fa/authenticate/")
    page.click("#passkey")
    page.wait_for_selector("#navigation")
    page.context.close()


def test_an_app_is_set_up_and_asked_for_at_the_next_login(
    transactional_db: None, server: str, chromium: Browser
) -> None:
    make_admin()
    page = logged_in_page(chromium, server, "ada")
    page.goto("/you/")
    page.click("text=Second factor")
    page.click("text=Set up an app")
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    secret = page.inner_text("#secret").replace(" ", "")
    page.fill("input[name=code]", code_now(secret))
    page.click("text=Set it up")
    page.wait_for_url("**/accounts/2fa/recovery-codes/")
    codes = page.inner_text("#codes").split()
    assert len(codes) == 10
    for code in (code_now(secret), codes[0]):  # that of the app was used just now
        page.context.clear_cookies()
        page.goto("/accounts/login/")
        page.fill("input[name=login]", "ada")
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.wait_for_url("**/accounts/2fa/authenticate/")
        page.fill("input[name=code]", code)
        page.click("button[type=submit]")
    page.wait_for_selector("#navigation")
    assert Authenticator.objects.filter(user__username="ada").count() == 2
    page.context.close()


WIDE, NARROW = (1440, 900), (390, 844)
ALL_LOOKS = [("light", WIDE), ("light", NARROW), ("dark", WIDE), ("dark", NARROW)]


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([("light", WIDE), ("dark", NARROW)], id="two"),
        pytest.param(ALL_LOOKS, id="all", marks=pytest.mark.long),
    ],
)
def test_the_pages_are_accessible_wide_and_narrow_light_and_dark(
    transactional_db: None, server: str, chromium: Browser, looks: list[tuple[str, tuple[int, int]]]
) -> None:
    make_admin()
    found: dict[str, object] = {}
    for theme, (width, height) in looks:
        page = logged_in_page(chromium, server, "ada", color_scheme=theme, viewport={"width": width, "height": height})
        paths = [
            "/people/",
            "/people/new/",
            "/people/ada/",
            "/you/",
            "/accounts/2fa/",
            "/accounts/2fa/totp/activate/",
        ]
        for path in [*paths, "/accounts/login/"]:
            page.goto(path)
            if page.url.split("?")[0].endswith("reauthenticate/"):
                page.fill("input[name=password]", PASSWORD)
                page.click("button[type=submit]")
            if complaints := violations(page):
                found[f"{path} {theme} {width}"] = complaints
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found[f"{path} {theme} {width} scroll"] = "wider than the screen"
        page.context.close()
    assert found == {}
