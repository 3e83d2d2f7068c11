"""What the sample leaves in the database, and that starting again adds nothing."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import OperationalError

from poisonadmin.core.domain.access import Role, principal
from poisonadmin.destinations.commands import save_destination
from poisonadmin.policies.commands import save_policy
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.message import Body, Envelope, Message
from poisonadmin.store.models.rule import PolicyRow
from sample import load
from sample.messages import dead_letters, webhooks

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC)


def test_every_webhook_and_dead_letter_is_handed_in_once(capsys):
    call_command("load_sample", "--once")
    assert capsys.readouterr().out == "254 sample messages handed in\n"
    assert Message.objects.filter(state="TBDL").count() == 250
    assert Message.objects.filter(state="NDLV", reason="imported").count() == 4
    call_command("load_sample", "--once")
    assert capsys.readouterr().out == "0 sample messages handed in\n"
    assert Message.objects.count() == 254


def test_payloads_arrive_byte_for_byte():
    load.load_once(NOW)
    for envelope in webhooks(NOW):
        stored = Envelope.objects.get(message_id=envelope.message_id)
        assert bytes(Body.objects.get(id=stored.id).payload) == envelope.payload


def test_every_message_has_a_destination_and_only_some_go_to_the_consumers_that_fail():
    load.load_once(NOW)
    waiting = Message.objects.filter(state="TBDL")
    assert set(waiting.values_list("address__destination__name", flat=True)) == {
        "sample-healthy",
        "sample-flaky",
        "sample-rejecting",
    }
    assert waiting.filter(address__destination__name="sample-healthy").count() > 100


def test_what_an_administrator_changed_stays_changed():
    load.load_once(NOW)
    admin = principal("admin", Role.ADMIN)
    save_policy(
        "github.push", preset=None, settings={"redelivery_delay": 7}, destination="sample-healthy", principal=admin
    )
    versions = dict(PolicyRow.objects.values_list("match", "version"))
    load.load_once(NOW)
    assert PolicyRow.objects.get(match="github.push").settings == {"redelivery_delay": 7}
    assert dict(PolicyRow.objects.values_list("match", "version")) == versions


def test_a_destination_follows_its_consumer_to_another_port_and_keeps_the_rest(monkeypatch):
    monkeypatch.setenv("POISONADMIN_SAMPLE_PORT", "7000")
    load.load_once(NOW)
    admin = principal("admin", Role.ADMIN)
    config = Destination.objects.get(name="sample-flaky").config | {"timeout_ms": 1234}
    save_destination("sample-flaky", kind="http", config=config, secrets=None, max_rate_per_second=5.0, principal=admin)
    monkeypatch.setenv("POISONADMIN_SAMPLE_PORT", "7100")
    load.load_once(NOW)
    flaky = Destination.objects.get(name="sample-flaky")
    assert flaky.config["url"] == "http://127.0.0.1:7101/flaky"
    assert flaky.config["timeout_ms"] == 1234
    assert flaky.max_rate_per_second == 5.0


def test_some_messages_expire_while_their_consumer_is_down():
    load.load_once(NOW)
    expiring = Message.objects.filter(expires_at__isnull=False)
    assert expiring.count() == 4
    assert all(message.expires_at - NOW < timedelta(seconds=15) for message in expiring)


def test_dead_letters_of_one_kind_are_one_failure_group():
    load.load_once(NOW)
    assert Attempt.objects.filter(outcome="imported").values("fingerprint").distinct().count() == 4
    assert {envelope.dead_letter.original_address for envelope in dead_letters(NOW)} == {"legacy.orders"}


def test_the_trickle_ends_after_two_hours():
    times = iter([0.0, 0.0, 3600.0, 7199.0, 7200.0])
    naps = []
    assert load.keep_going(sleep=naps.append, clock=lambda: next(times)) == 3
    assert naps == [0.5, 0.5, 0.5]
    assert Message.objects.count() == 3


def test_the_trickle_waits_for_a_database_that_is_away(monkeypatch):
    answers = iter([OperationalError("the database system is shutting down"), True])

    def hand_in(envelope):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(load, "hand_in", hand_in)
    monkeypatch.setattr(load, "close_old_connections", lambda: None)
    times = iter([0.0, 0.0, 7200.0])
    naps = []
    assert load.keep_going(sleep=naps.append, clock=lambda: next(times)) == 1
    assert naps == [load.RETRY_SECONDS, 0.5]


def test_the_trickle_brings_new_messages_and_now_and_then_a_dead_letter():
    some = load.trickle(lambda: NOW)
    envelopes = [next(some) for _ in range(80)]
    assert len({envelope.message_id for envelope in envelopes}) == 80
    assert sum(envelope.dead_letter is not None for envelope in envelopes) == 2
