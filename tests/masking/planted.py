"""A canary in every field of messages, for tests that look for it in whatever somebody reads."""

from typing import Any

from django.db import connection

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.operations.commands.beginning import begin, decide_on
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule
from poisonadmin.destinations.commands import save_destination
from poisonadmin.masking.commands import save_masking_rule
from poisonadmin.masking.domain import MaskingRuleFields
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.policies.commands import save_policy
from poisonadmin.search.commands.selections import freeze
from poisonadmin.store.models.intake import RejectedLine
from poisonadmin.store.models.poison import PoisonEntry
from tests import crashes
from tests.fixtures.pages import dead_letter, waiting

# One word of letters: a title of a failure group keeps it.
CANARY = "kanarienvogel"
ADDRESS = "planted.one"
LETTER = {
    "exception_class": "com.example.Planted",
    "exception_message": f"customer {CANARY} is unknown",
    "stack": f"com.example.Planted: {CANARY}\n\tat com.example.{CANARY}.apply(Orders.java:12)",
    "reason": "gave up",
}
BODY: dict[str, Any] = {
    "customer": {"name": CANARY, "tags": [CANARY, {"of": CANARY}]},
    CANARY: CANARY,
    "open": "plain",
    "inner": f'{{"customer": "{CANARY}"}}',
}
HEADERS = {"traceparent": f"00-{CANARY}", "tracestate": f"vendor={CANARY}", "X-Customer": CANARY, "X-Open": "plain"}


def mask(match: str = "planted.#", *allowed: str, **part: str) -> int:
    """Save a masking rule; return its id."""
    fields = MaskingRuleFields(match=match, allowed_roles=list(allowed), **part)
    return save_masking_rule(fields, principal=SYSTEM).id


def plant() -> dict[str, int]:
    """Plant the canary in messages of an address, dead, edited, crashed, and in an operation that waits for a sign-off;
    return ids of what holds it."""
    keys = ["customer=$.customer.name", "shop=header:X-Open"]
    url = {"url": "http://127.0.0.1:9/"}
    save_destination("planted", kind="http", config=url, secrets=None, max_rate_per_second=None, principal=SYSTEM)
    save_policy("planted.#", preset=None, settings={"business_keys": keys}, destination="planted", principal=SYSTEM)
    message = dead_letter(ADDRESS, payload=BODY, headers=HEADERS, dead_letter=LETTER)
    with connection.cursor() as cursor:
        transport = f'{{"broker": "kafka", "key": {{"base64": "a2FuYXI="}}, "headers": {{"X-Customer": "{CANARY}"}}}}'
        cursor.execute("UPDATE body SET transport = %s WHERE id = %s", [transport.encode(), message.id])
    edited = dead_letter(ADDRESS, payload=BODY, headers=HEADERS, dead_letter=LETTER)
    change = {"json_patch": [{"op": "add", "path": "/more", "value": CANARY}], "headers": {"set": {"X-More": CANARY}}}
    decide_on([edited.id], OperationAction.PATCH, params=change, reason="r", principal=SYSTEM, is_one=True)
    killer = waiting(ADDRESS, payload=BODY, headers=HEADERS)
    crashes.blacklist(
        killer.id, output=CANARY.encode(), title=CANARY, error_message=CANARY, response=CANARY.encode(), stack=CANARY
    )
    report(Report(source=ADDRESS, bookmark="17", why=f"{CANARY} cannot be read"), principal=SYSTEM)
    save_sign_off_rule("planted.#", None, above=1, principal=SYSTEM)
    both = freeze(ids=[message.id, edited.id], principal=SYSTEM)
    to_all = {"json_patch": change["json_patch"]}
    line = RejectedLine.objects.create(batch="planted", line=1, code="invalid_json", detail=CANARY, raw=CANARY.encode())
    message.refresh_from_db()
    return {
        "message": message.id,
        "edited": edited.id,
        "killer": killer.id,
        "group": message.group_id or 0,
        "entry": PoisonEntry.objects.get(source=ADDRESS).id,
        "rejected": line.id,
        "selection": both,
        "operation": begin(both, OperationAction.PATCH, params=to_all, reason="r", principal=SYSTEM),
    }
