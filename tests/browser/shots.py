"""Takes a picture of every page, light and dark, wide and narrow, and runs axe on each.

`python -m tests.browser.shots http://127.0.0.1:8000 admin PASSWORD out/` against a running installation.
"""

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from poisonadmin.brokers.domain.broker_kinds import BROKERS
from tests.browser.axe import violations
from tests.browser.ensure_chromium import chromium_path

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
BROKERS_BY_NAME = "|".join(kind.words for kind in BROKERS.values())
CRASHED = "/triage/?state=NDLV&reason=blacklisted&group_by=crashes"
GROUPS = "/triage/?snoozed=false&group_by=failure"
WIDTHS = {"wide": (1440, 900), "narrow": (360, 740)}


def main(base: str, user: str, password: str, out: Path, only: str = "") -> int:
    """Write the pictures into `out` and print what axe and the console say; return the number of complaints."""
    out.mkdir(parents=True, exist_ok=True)
    complaints = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        for theme in ("light", "dark"):
            for size, (width, height) in WIDTHS.items():
                complaints += _walk(browser, base, (user, password), out, f"{size}-{theme}", theme, width, height, only)
        browser.close()
    return complaints


def _walk(
    browser: Browser,
    base: str,
    account: tuple[str, str],
    out: Path,
    name: str,
    theme: Any,
    width: int,
    height: int,
    only: str,
) -> int:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    said: list[str] = []
    page.on(
        "console",
        lambda message: (
            said.append(f"{message.type}: {message.text}") if message.type in {"error", "warning"} else None
        ),
    )
    page.on("pageerror", lambda error: said.append(f"exception: {error}"))
    page.goto(f"{base}/accounts/login/")
    page.screenshot(path=out / f"login-{name}.png")
    page.fill("input[name=login]", account[0])
    page.fill("input[name=password]", account[1])
    page.click("button[type=submit]")
    page.wait_for_url(f"{base}/")
    complaints = 0
    refused = {"mistaken", "missing"}
    for label, path in paths(page, base).items():
        if only and label not in only.split(","):
            continue
        page.goto(f"{base}{path}")
        page.wait_for_timeout(400)
        page.screenshot(path=out / f"{label}-{name}.png", full_page=True)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found = violations(page)
        if wide > 0:
            found.append(f"reaches {wide} px beyond the window")
        # That a refused page is refused is also written to the console.
        said[:] = [line for line in said if label not in refused or "Failed to load resource" not in line]
        for problem in [*found, *said]:
            print(f"{label} {name}: {problem}")
        complaints += len(found) + len(said)
        said.clear()
    context.close()
    return complaints


def paths(page: Page, base: str) -> dict[str, str]:
    """Return the pages to visit, with ids that exist."""
    fixed = {
        "overview": "/",
        "messages": "/triage/",
        "undecided": "/triage/?state=NDLV",
        "nothing": "/triage/?message_id=no-such",
        "mistaken": "/triage/?q=address:a..b",
        "crashed": CRASHED,
        "crashed-nothing": CRASHED + "&address=elsewhere",
        "groups": GROUPS,
        "groups-snoozed": "/triage/?snoozed=true&group_by=failure",
        "groups-alike": "/groups/alike/",
        "by-failure": "/triage/?state=NDLV&group_by=failure",
        "by-address": "/triage/?group_by=address",
        "by-header": "/triage/?group_by=header.content-type",
        "failures": "/triage/?group_by=failures",
        "addresses": "/addresses/",
        "destinations": "/destinations/",
        "policies": "/policies/?address=github.issues",
        "policy-new": "/policies/new/",
        "simulator": "/policies/simulator/",
        "restart-jobs": "/restart-jobs/",
        "restart-job-new": "/restart-jobs/new/?address=orders.eu.*&reason=attempts_exhausted",
        "rules": "/rules/",
        "rule-new": "/rules/new/before/",
        "rule-new-after": "/rules/new/after/",
        "sources": "/sources/",
        "connect": "/connect/",
        "connect-files": "/connect/?of=files",
        "connect-programs": "/connect/?of=programs",
        "destination-new": "/destinations/broker/",
        "destination-new-http": "/destinations/http/",
        "destination-new-handler": "/destinations/handler/",
        "unanswered": "/triage/?confirmation=unanswered",
        "operations": "/operations/",
        "sign-offs": "/sign-offs/",
        "sign-off-rule-new": "/sign-offs/rules/new/",
        "alerts": "/alerts/",
        "alert-rule-new": "/alerts/rules/new/",
        "jobs": "/jobs/",
        "nodes": "/nodes/",
        "nodes-lost": "/nodes/?show=lost",
        "nodes-all": "/nodes/?show=all",
        "poison-list": "/poison-list/?show=all",
        "audit": "/audit/",
        "missing": "/messages/999999999/",
        "password": "/accounts/password/change/",
        "help": "/help/use/states/",
    }
    found = {}
    for label, listed, selector in (
        ("message-undecided", "/triage/?state=NDLV", "a[data-open]"),
        ("message-waiting", "/triage/?state=TBDL", "a[data-open]"),
        ("message-imported", "/triage/?reason=imported", "a[data-open]"),
        ("message-blacklisted", CRASHED, "a[data-open]"),
        ("message-candidate", CRASHED, "a[id^=candidate]"),
        ("bystanders", CRASHED, "a[href*='/bystanders/']"),
        ("node-lost", "/nodes/?show=lost", "a[data-open]"),
        ("poison-source", "/poison-list/?show=all", "section a[href*='?source=']"),
        ("group", GROUPS, "a[data-open]"),
        ("group-edit", GROUPS, "a[data-open]"),
        ("operation", "/operations/", "a[data-open]"),
        ("operation-waiting", "/sign-offs/", "a[data-open]"),
        ("address", "/addresses/?status=PAUSED", "a[data-open]"),
        ("address-stopped", "/addresses/?status=STOPPED", "a[data-open]"),
        ("address-dead", "/addresses/?match=*.dead", "a[data-open]"),
        ("message-dead", "/triage/?address=*.dead&state=NDLV", "a[data-open]"),
        ("message-held", "/triage/?address=ledger.eu&state=TBDL", "a[data-open]"),
        ("policy-warned", "/policies/", "tr:has(.tag-warn) a[data-open]"),
        ("restart-job", "/restart-jobs/", "a[data-open]"),
        ("destination", "/destinations/", "a[data-open]"),
        ("destination-broker", "/destinations/", f"tr:has(td:text-matches('^({BROKERS_BY_NAME})$')) a[data-open]"),
        ("policy", "/policies/", "a[data-open]"),
        ("rule", "/rules/", "a[data-open]"),
        ("source", "/sources/", "a[data-open]"),
        ("source-broker", "/sources/", "a[data-open]:text('shop-dead-letters')"),
        ("source-failing", "/sources/", "a[data-open]:text('orders-dlt')"),
        ("message-unanswered", "/triage/?confirmation=unanswered", "a[data-open]"),
        ("rejected", "/sources/", "a[href$='/rejected/']"),
        ("alert-rule", "/alerts/", "a[data-rule]"),
        ("alert-delivery", "/alerts/", "a[data-delivery]"),
        ("job", "/jobs/", "a[data-open]"),
    ):
        page.goto(f"{base}{listed}")
        link = page.query_selector(selector)
        if link:
            found[label] = str(link.get_attribute("href")) + ("annotation/" if label == "group-edit" else "")
    return fixed | found


if __name__ == "__main__":
    base_url, name, secret, directory, *labels = sys.argv[1:]
    print(json.dumps({"complaints": main(base_url, name, secret, Path(directory), ",".join(labels))}))
