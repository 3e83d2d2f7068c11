"""The destinations and policies of the sample. What is there already is left as it is."""

from dataclasses import dataclass, field
from typing import Any

from poisonadmin.domain.access import Principal
from poisonadmin.operations import configure
from poisonadmin.store.models import Destination, PolicyRow

QUICK = {"redelivery_delay": 1000, "redelivery_delay_multiplier": 2, "max_redelivery_delay": 4000}


@dataclass(frozen=True)
class SamplePolicy:
    """One policy of the sample; `to` is a consumer's name."""

    match: str
    to: str
    settings: dict[str, Any] = field(default_factory=dict)


POLICIES = (
    SamplePolicy("github.#", "healthy", {"redelivery_delay": 2000, "max_delivery_attempts": 4}),
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
    SamplePolicy("github.pull_request", "rejecting", QUICK | {"max_delivery_attempts": 3}),
    SamplePolicy(
        "github.release", "rejecting", QUICK | {"max_delivery_attempts": 2, "dead_letter_address": "dead.releases"}
    ),
    SamplePolicy("github.dependabot_alert", "rejecting", QUICK | {"max_delivery_attempts": 2}),
    SamplePolicy("github.security_advisory", "rejecting", QUICK | {"max_delivery_attempts": 2}),
)
# The flaky consumer's slowest answer takes longer than this.
TIMEOUT_MS = {"flaky": 4000}


def configure_sample(urls: dict[str, str], *, principal: Principal) -> None:
    """Create the destinations and policies that are missing; a destination follows its consumer to another port."""
    for consumer, url in urls.items():
        config = {"url": url, "timeout_ms": TIMEOUT_MS.get(consumer, 10_000), "concurrency": 16}
        name = destination_name(consumer)
        known = Destination.objects.filter(name=name).first()
        if known is None or known.config.get("url") != url:
            merged = config if known is None else known.config | {"url": url}
            configure.save_destination(
                name,
                kind="http",
                config=merged,
                secrets=None,
                max_rate_per_second=None if known is None else known.max_rate_per_second,
                principal=principal,
            )
    known_patterns = set(PolicyRow.objects.values_list("match", flat=True))
    for policy in POLICIES:
        if policy.match not in known_patterns:
            configure.save_policy(
                policy.match,
                preset=None,
                settings=policy.settings,
                destination=destination_name(policy.to),
                principal=principal,
            )


def destination_name(consumer: str) -> str:
    """Return the name under which a consumer is configured."""
    return f"sample-{consumer}"
