"""What the demo's fourth consumer leaves behind: claimed, delivered and settled as the workers do it, without Spark."""

import pytest

from poisonadmin.delivery.commands.claim import claim_due, claim_isolated
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.message import Message
from sample.configuration import HANDLERS, INDEXED, configure_sample
from sample.load import LOADER, hand_in
from sample.messages import webhooks
from sample.ports import urls
from tests.fixtures import decisions
from tests.fixtures.delivery import run_shards
from tests.sample.test_load import NOW

DEADLY = {"commit_comment", "deploy_key", "meta", "repository_import", "public", "status"}


def work_off(database_url: str) -> None:
    """Deliver until nothing waits; nobody waits for a retry."""
    for _ in range(40):
        waiting = list(Message.objects.filter(state="TBDL").values_list("id", flat=True))
        if not waiting:
            return
        decisions.deliver_now(waiting, principal=LOADER, reason="now")
        while (claim := claim_isolated() or claim_due(tasks=2)) is not None:
            run_shards(database_url, claim)
            settle(claim.id)
    raise AssertionError(f"still waiting: {list(Message.objects.filter(state='TBDL').values())}")


@pytest.mark.long
def test_what_kills_the_handler_is_blacklisted_and_everything_else_is_delivered_or_fails_in_the_ordinary_way(
    transactional_db: None, test_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POISONADMIN_HANDLER_PATH", str(HANDLERS))
    configure_sample(urls(1), principal=LOADER)
    for envelope in webhooks(NOW):
        if envelope.address.removeprefix("github.") in INDEXED:
            hand_in(envelope)
    work_off(test_database_url)
    found: dict[tuple[str, str | None], set[str]] = {}
    for name, state, reason in Message.objects.values_list("address__name", "state", "reason"):
        found.setdefault((state, reason), set()).add(name.removeprefix("github."))
    assert found == {
        ("NDLV", "blacklisted"): DEADLY,
        ("NDLV", "attempts_exhausted"): {"gollum"},
        ("DLVD", None): set(INDEXED) - DEADLY - {"gollum"},
    }
    blacklisted = Message.objects.filter(reason="blacklisted")
    assert set(blacklisted.values_list("crash_count", flat=True)) == {2}
    crashes = Attempt.objects.filter(outcome="crashed")
    assert crashes.count() == 2 * blacklisted.count() + Message.objects.filter(address__name="github.fork").count()
    assert all(b"indexing" in bytes(crash.output or b"") for crash in crashes), "each says what it was doing"
    assert set(crashes.values_list("error_class", flat=True)) == {
        *("HandlerSegfault", "HandlerExited", "HandlerAborted", "HandlerOutOfMemory", "HandlerCpuLimit"),
        *("HandlerTimeLimit", "HandlerKilled"),
    }
    assert not Message.objects.filter(state="DLVD", candidate=True).exists(), "who is delivered is cleared"
