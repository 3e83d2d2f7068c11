"""The destinations and policies of the sample. What is there already is left as it is."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poisonadmin.core.domain.access import Principal
from poisonadmin.destinations.commands import save_destination
from poisonadmin.destinations.domain.handler_config import handler_directories
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.rule import PolicyRow

HANDLERS = Path(__file__).resolve().with_name("handlers")
CRASHING = "crashing"
# The limits that suit sample/handlers/search_index.py: small, so that what runs into them does so soon.
HANDLER = {
    "callable": "search_index:handle",
    "memory_mb": 256,
    "cpu_seconds": 0.5,
    "timeout_ms": 4000,
    "concurrency": 2,
}
# These messages come again and again: approved after newer ones were delivered, each would be taken for overtaken.
NO_KEYS: dict[str, object] = {"business_keys": []}
QUICK = {"redelivery_delay": 1000, "redelivery_delay_multiplier": 2, "max_redelivery_delay": 4000}
KEYS = ["repository=$.repository.full_name", "sender=$.sender.login"]


@dataclass(frozen=True)
class SamplePolicy:
    """One policy of the sample; `to` is a consumer's name."""

    match: str
    to: str
    settings: dict[str, Any] = field(default_factory=dict)


INDEXED = (
    *("commit_comment", "deploy_key", "meta", "repository_import", "public", "status", "fork"),
    *("gollum", "ping", "discussion", "label", "project_card"),
)
POLICIES = (
    SamplePolicy("github.#", "healthy", {"redelivery_delay": 2000, "max_delivery_attempts": 4, "business_keys": KEYS}),
    SamplePolicy("legacy.#", "healthy", {"redelivery_delay": 2000, "max_delivery_attempts": 4}),
    SamplePolicy("github.issues", "flaky", {"redelivery_delay": 5000, "redelivery_delay_multiplier": 2}),
    SamplePolicy("github.issue_comment", "flaky", {"redelivery_delay": 4000}),
    SamplePolicy("github.check_run", "flaky", {"redelivery_delay": 10_000}),
    SamplePolicy("github.check_suite", "flaky", {"redelivery_delay": 15_000}),
    SamplePolicy("github.push", "flaky", {"redelivery_delay": 5000}),
    SamplePolicy("github.workflow_job", "flaky"),
    SamplePolicy("github.workflow_run", "flaky"),
    SamplePolicy("github.deployment_status", "flaky", QUICK | {"max_delivery_attempts": 3}),
    SamplePolicy("github.marketplace_purchase", "flaky", {"redelivery_delay": 20_000}),
    SamplePolicy("github.pull_request", "rejecting", QUICK | NO_KEYS | {"max_delivery_attempts": 3}),
    SamplePolicy(
        "github.release",
        "rejecting",
        QUICK | NO_KEYS | {"max_delivery_attempts": 2, "dead_letter_address": "dead.releases"},
    ),
    SamplePolicy("github.dependabot_alert", "rejecting", QUICK | NO_KEYS | {"max_delivery_attempts": 2}),
    SamplePolicy("github.security_advisory", "rejecting", QUICK | NO_KEYS | {"max_delivery_attempts": 2}),
    *(SamplePolicy(f"github.{event}", CRASHING, QUICK | {"max_delivery_attempts": 3}) for event in INDEXED),
)
# The flaky consumer's slowest answer takes longer than this.
TIMEOUT_MS = {"flaky": 4000}


def configure_sample(urls: dict[str, str], *, principal: Principal) -> None:
    """Create the destinations and policies that are missing; a destination follows its consumer to another port.

    Without the sample's directory in POISONADMIN_HANDLER_PATH the crashing consumer is left out.
    """
    for consumer, url in urls.items():
        config = {"url": url, "timeout_ms": TIMEOUT_MS.get(consumer, 10_000), "concurrency": 16}
        name = destination_name(consumer)
        known = Destination.objects.filter(name=name).first()
        if known is None or known.config.get("url") != url:
            merged = config if known is None else known.config | {"url": url}
            save_destination(
                name,
                kind="http",
                config=merged,
                secrets=None,
                max_rate_per_second=None if known is None else known.max_rate_per_second,
                principal=principal,
            )
    runs_handlers = HANDLERS in handler_directories(os.environ)
    if runs_handlers and not Destination.objects.filter(name=destination_name(CRASHING)).exists():
        save_destination(
            destination_name(CRASHING),
            kind="handler",
            config=HANDLER,
            secrets=None,
            max_rate_per_second=None,
            principal=principal,
        )
    known_patterns = set(PolicyRow.objects.values_list("match", flat=True))
    for policy in POLICIES:
        if policy.match not in known_patterns and (runs_handlers or policy.to != CRASHING):
            save_policy(
                policy.match,
                preset=None,
                settings=policy.settings,
                destination=destination_name(policy.to),
                principal=principal,
            )


def destination_name(consumer: str) -> str:
    """Return the name under which a consumer is configured."""
    return f"sample-{consumer}"
