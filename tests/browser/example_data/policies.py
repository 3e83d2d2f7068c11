"""What the pages of policies, addresses and restart jobs show: a stopped address, a held conversation, restart jobs."""

from django.utils import timezone

from poisonadmin.core.domain.access import SYSTEM
from poisonadmin.decisions.restart_jobs.commands import save_restart_job
from poisonadmin.decisions.restart_jobs.domain import RunOutcome
from poisonadmin.intake.commands.accept import accept
from poisonadmin.intake.domain.envelope import parse_envelope
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.lane import Address
from poisonadmin.store.models.restart_job import RestartJob, RestartRun
from tests.fixtures import decisions

RETURNS = {
    "redelivery_delay": 0,
    "max_delivery_attempts": 1,
    "dead_letter_address": "returns.dead",
    "auto_create_dead_letter_resources": True,
    "business_keys": ["order=$.order.id", "header:X-Tenant"],
}


def make_policies() -> None:
    """Add all of it to an installation that has the destination `billing`."""
    _hold_a_conversation()
    _stop_an_address()
    _schedule_restarts()


def _hold_a_conversation() -> None:
    settings = {"ordered": True, "conversation_failure_limit": 4, "business_keys": ["entry=$.entry"]}
    save_policy("ledger.#", preset=None, settings=settings, destination="billing", principal=SYSTEM)
    entries = [
        accept(
            parse_envelope(
                {
                    "address": "ledger.eu",
                    "message_id": f"entry-{number}",
                    "conversation_id": "account-77",
                    "payload": {"entry": f"2026-{number:03d}"},
                }
            ),
            principal=SYSTEM,
            received_by="api",
        ).id
        for number in range(6)
    ]
    decisions.quarantine(entries[1:2], principal=SYSTEM, reason="The amount is negative; accounting looks at it.")


def _stop_an_address() -> None:
    for retries in (5, 2):
        save_policy(
            "payments.#",
            preset="websphere_mq",
            settings={
                "listener_max_retries": retries,
                "backout_threshold": 3,
                "backout_requeue_queue": "payments.back",
            },
            destination="billing",
            principal=SYSTEM,
        )
    envelope = parse_envelope({"address": "payments.sepa", "message_id": "transfer-1", "payload": {"iban": "?"}})
    culprit = accept(envelope, principal=SYSTEM, received_by="api").id
    Address.objects.filter(name="payments.sepa").update(
        status="STOPPED",
        status_by="system",
        status_note="failure 2 of a message reached listener_max_retries",
        status_message_id=culprit,
        status_at=timezone.now(),
    )


def _schedule_restarts() -> None:
    for name, schedule, filter_, blacklisted in (
        ("nightly returns", "0 4 * * *", {"address": ["returns.#"], "reason": ["attempts_exhausted"]}, False),
        ("after the weekend", "30 6 * * 1", {"address": ["orders.eu.*"], "error": ["TimeoutError"]}, True),
    ):
        save_restart_job(
            name,
            action="approve",
            reason="the consumer is restarted before every shift",
            schedule=schedule,
            filter=filter_,
            include_blacklisted=blacklisted,
            max_restarts=3,
            is_enabled=not blacklisted,
            principal=SYSTEM,
        )
    nightly = RestartJob.objects.get(name="nightly returns")
    RestartRun.objects.create(restart_job_id=nightly.id, outcome=RunOutcome.NOTHING)
    RestartRun.objects.create(
        restart_job_id=nightly.id, outcome=RunOutcome.REFUSED, detail="The account of its owner is not in force."
    )
