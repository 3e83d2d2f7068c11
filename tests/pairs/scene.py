"""A scene: members that wait for a decision, bystanders, an operation on them, and whoever interrupts it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from poisonadmin.archive.commands import runs
from poisonadmin.archive.commands.holds import hold
from poisonadmin.archive.commands.requests import request_archive_run
from poisonadmin.core.domain.access import SYSTEM, Principal, Role, principal
from poisonadmin.core.domain.masking import Masked
from poisonadmin.core.queries.rows import fetch_rows, fetch_values
from poisonadmin.decisions.operations.commands.awaited_versions import begin_awaited
from poisonadmin.decisions.operations.commands.beginning import OperationTerms, begin
from poisonadmin.decisions.operations.commands.operations import carry_on, change
from poisonadmin.decisions.operations.commands.undoing import undo
from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.awaited_version import BeginWhen
from poisonadmin.decisions.operations.domain.lifecycle import OperationChange
from poisonadmin.decisions.operations.domain.pace import Pace
from poisonadmin.decisions.operations.domain.replay import WAIVABLE
from poisonadmin.decisions.operations.queries.operations import OperationDetail, get_operation
from poisonadmin.decisions.operations.queries.preview import preview
from poisonadmin.decisions.restart_jobs.commands import run_once, save_restart_job
from poisonadmin.decisions.sign_offs.commands import save_sign_off_rule, sign_off
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.delivery.commands.claim import claim_due, claim_isolated
from poisonadmin.delivery.commands.settle import settle
from poisonadmin.desk.queries.detail import payload
from poisonadmin.destinations.commands import save_destination
from poisonadmin.groups.commands.annotations import annotate
from poisonadmin.groups.queries.groups import get_group
from poisonadmin.poison_list.commands import Report, report
from poisonadmin.policies.commands import save_policy
from poisonadmin.runs.commands.engine import carry_out
from poisonadmin.search.commands.selections import freeze
from poisonadmin.search.queries.selections import get_selection
from poisonadmin.store.models.attempt import Attempt
from poisonadmin.store.models.deployment import SeenVersion
from tests.archive.in_process import InProcessStore
from tests.fixtures.api import take
from tests.fixtures.delivery import answer, claim, end_nodes, enqueue
from tests.masking.planted import mask
from tests.pairs.features import BAD_ONE, MEMBERS, REPLAYS, Plan
from tests.pairs.model import Expected, Found, check
from tests.pairs.worker import Beginning, Worker

RITA = principal("rita", Role.REVIEWER)
CRASH = {"error_class": "HandlerKilled", "error_message": "killed", "fingerprint": "c" * 16, "title": "Killed"}
DEAD = {"reason": "gave up", "exception_class": "TimeoutError", "exception_message": "no answer in 30 s"}
CONFIG = {"http": {"url": "http://127.0.0.1:9/"}, "handler": {"callable": "shop:handle"}}
# The member under way at which a person pauses or cancels.
INTERRUPTED_AT = 3

# All that a decision may change of a message, and of what keeps it from being delivered.
_FOUND = """
SELECT message.id, state, message.reason, address.name, original_address_id, candidate, crash_count,
       convert_from(payload, 'UTF8'), coalesce(is_listed, FALSE), coalesce(ended_at IS NOT NULL, FALSE)
FROM message JOIN envelope USING (id) JOIN body USING (id) JOIN address ON address.id = message.address_id
     LEFT JOIN poison_entry ON source = address.name AND poison_entry.bookmark = envelope.bookmark
     LEFT JOIN conversation ON conversation.address_id = message.address_id
                            AND conversation.conversation_id = envelope.conversation_id
WHERE message.id = ANY(%(ids)s) ORDER BY message.id
"""
_BEFORE_IT = """
SELECT other.id FROM envelope AS its JOIN message AS one USING (id)
     JOIN envelope ON envelope.conversation_id = its.conversation_id
     JOIN message AS other ON other.id = envelope.id AND other.address_id = one.address_id
WHERE its.id = %(id)s AND other.id < its.id AND other.state IN ('TBDL', 'DLNG', 'NDLV')
  AND NOT EXISTS (SELECT FROM attempt WHERE attempt.message_id = other.id AND outcome = 'delivered'
                                        AND attempt.attempt_number = other.attempt_number)
"""
_SKIPPED = "SELECT message_id FROM operation_result WHERE operation_id = %(id)s AND outcome = 'skipped'"


class Scene:
    """`found`: what the model compares; `bystanders` were on the address already, and no operation names them."""

    def __init__(self, plan: Plan, name: str = "scene") -> None:
        self.plan = plan
        self.name = name
        self.bystanders: list[int] = []
        self.is_interrupted = False
        self.operation = 0
        save_destination(
            name, kind=plan.kind, config=CONFIG[plan.kind], secrets=None, max_rate_per_second=None, principal=SYSTEM
        )
        self._save_policy({"max_delivery_attempts": -1} if plan.died == "conversation ended" else {})
        self.members = self._take_in()
        self._save_policy({})
        self.by = SYSTEM
        if plan.masks:
            mask(f"{name}.#", str(Role.REVIEWER), json_path="$.a")
            self.by = self._reader()
        self.snoozed = self._snooze() if plan.snoozes else {}
        self.worker = Worker(self._answer, self._begins, is_ordered="ordered" in plan.policy)

    def play(self) -> None:
        """Carry out each operation to its end, and check what became of everybody."""
        self.bystanders += enqueue(2, self._address)
        if self.plan.mistaken:
            self._mark_and_undo()
        for place, (action, params) in enumerate(self.plan.actions):
            is_last = place == len(self.plan.actions) - 1
            self._operate(action, self._named(params), self.plan.interrupt if is_last else "cancel")
        kept = get_operation(self.operation, principal=SYSTEM)
        for then in self.plan.then:
            self._then(then)
        now = get_operation(self.operation, principal=SYSTEM)
        assert (now.ledger, now.count) == (kept.ledger, kept.count), "a ledger changed with its members' rows"
        for group, failures in self.snoozed.items():
            after = get_group(group, principal=SYSTEM)
            is_snoozed = after.snoozed_failures is not None
            assert is_snoozed is (after.failures == failures), f"group {group} has {after.failures} failures"
        for message in self.members if self.plan.masks else ():
            seen = b"".join(payload(message, principal=self._reader()).slices)
            assert b"[masked:" in seen, "it can be read now"

    # The members.

    @property
    def _address(self) -> str:
        return f"{self.name}.eu"

    def _named(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._named(one) for key, one in value.items()}
        return value.replace("{scene}", self.name) if isinstance(value, str) else value

    def _save_policy(self, other: Mapping[str, Any]) -> None:
        values = {key: self._named(value) for key, value in {**self.plan.policy, **other}.items()}
        for place in ("eu", "us"):  # what is moved to the dead-letter address stays there
            save_policy(f"{self.name}.{place}", preset=None, settings=values, destination=self.name, principal=SYSTEM)

    def _take_in(self) -> list[int]:
        has_ended = self.plan.died == "conversation ended"
        heads = [self._one(number) for number in range(self.plan.conversations if has_ended else 0)]
        ids = [self._one(number) for number in range(MEMBERS)]
        if heads:
            taken = claim()
            answer(heads, "failed")
            end_nodes(taken)
            settle()
        if self.plan.candidates:
            with connection.cursor() as cursor:
                cursor.execute("UPDATE message SET candidate = TRUE WHERE id = ANY(%s)", [ids])
        for message in [ids[place] for place in REPLAYS if self.plan.guards]:
            Attempt.objects.create(
                message_id=message, attempt_number=-1, outcome="failed", error_class="HttpTimeout", finished_at=Now()
            )
        found = self.found(ids)
        assert {one.state for one in found.values()} == {"NDLV"}, found
        return ids

    def _one(self, number: int) -> int:
        more: dict[str, Any] = {"bookmark": f"b {number}"}
        if self.plan.conversations:
            more["conversation_id"] = f"c-{number % self.plan.conversations}"
        address = self._address
        if self.plan.died == "moved":
            address, more["dead_letter"] = f"{self.name}.dlq", DEAD | {"original_address": self._address}
        elif self.plan.died == "dead letter":
            more["dead_letter"] = DEAD
        message = take(address, '{"a": 1}', **more)
        if self.plan.died == "listed":
            report(Report(self._address, f"b {number}", "unreadable"), principal=SYSTEM)
        return message

    def found(self, ids: Sequence[int]) -> dict[int, Found]:
        """Return what the database has of messages."""
        return {row[0]: Found(*row[1:]) for row in fetch_rows(_FOUND, {"ids": list(ids)})}

    def _reader(self) -> Principal:
        """Return who operates where payloads are masked; what is masked is kept with each."""
        return principal("otto", Role.OPERATOR)

    def _snooze(self) -> dict[int, int]:
        """Snooze the members' failure groups until they grow by one; return how many failures each has."""
        groups = fetch_values(
            "SELECT DISTINCT group_id FROM message WHERE id = ANY(%(ids)s) AND group_id IS NOT NULL",
            {"ids": self.members},
        )
        for group in groups:
            annotate(group, {"snoozed_until_grown": {"by": 1}}, principal=SYSTEM)
        return {group: get_group(group, principal=SYSTEM).failures for group in groups}

    # What the receiver does, and who looks on.

    def _is_bad(self, message: int) -> bool:
        return self.plan.bad is not None and message == self.members[BAD_ONE]

    def _answer(self, message: int) -> tuple[str, Mapping[str, object]]:
        if not self._is_bad(message):
            return "delivered", {}
        return ("crashed", CRASH) if self.plan.bad == "crashed" else ("failed", {})

    def _begins(self, one: Beginning) -> None:
        if one.message in self.bystanders:
            assert one.operation is None
            return
        assert one.operation == self.operation, f"{one} after its operation was over"
        if "ordered" in self.plan.policy:
            held = fetch_values(_BEFORE_IT, {"id": one.message})
            assert not held, f"{one.message} began before {held}"
        if self.found([one.message])[one.message].candidate:
            assert one.is_alone, f"{one.message} is a candidate, and began beside others"
        if one.is_alone:
            self.bystanders += enqueue(1, self._address)
            assert claim_isolated() is None, "two candidates at once"
            assert claim_due(tasks=1) is None, "something began beside a candidate"
        begun = [each for each in self.worker.begun if each.operation == self.operation]
        if self.interrupt is not None and not self.is_interrupted and len(begun) == self.at:
            self.is_interrupted = self.worker.stops = True
            self.begun_by_then = len(self.worker.begun)
            self._change(OperationChange(self.interrupt))
            if self.interrupt == "cancel":
                assert self._now().state == "cancelling", "one of it is under way"

    # The operation.

    def _mark_and_undo(self) -> None:
        before = self.found(self.members)
        marked = begin(freeze(ids=self.members, principal=SYSTEM), OperationAction.FAIL, reason="no", principal=SYSTEM)
        self.worker.work()
        assert {one.state for one in self.found(self.members).values()} == {"FAIL"}
        undo(marked, principal=SYSTEM)
        after = {
            message: replace(one, reason=before[message].reason) for message, one in self.found(self.members).items()
        }
        assert after == before, "what was undone is not as it was"

    def _operate(self, action: OperationAction, params: Mapping[str, Any], interrupt: str | None) -> None:
        self.interrupt, self.is_interrupted = interrupt, False
        self.at = 1 if self.plan.has_canary else INTERRUPTED_AT
        before = self.found(self.members)
        undecided = [message for message, one in before.items() if one.state == "NDLV"]
        if action is OperationAction.PATCH and self.by is not SYSTEM:
            unread = freeze(ids=undecided, principal=self.by)
            with pytest.raises(Masked):
                begin(unread, action, reason="mended", principal=self.by, params=params)
            self.by = SYSTEM
        selection = freeze(ids=undecided, principal=self.by)
        waive = () if self.plan.guards else WAIVABLE
        found = get_selection(selection, principal=self.by)
        foreseen = preview(found, action, principal=self.by, params=params, waive=waive)
        self.operation = self._begin(selection, action, params)
        if self.plan.signs_off:
            assert self._now().state == "waiting_for_sign_off"
            self.worker.work()
            assert self.found(self.members) == before, "something was done without a sign-off"
            sign_off(
                self.operation,
                SignOffDecision.CONSENT,
                selection_hash=self._now().hash,
                reason="I have checked it",
                principal=RITA,
            )
        if self.plan.awaits and not self._is_job(action):
            awaited = self._now().begin_when
            assert (self._now().state, awaited is None) == ("waiting_for_version", False)
            self.worker.work()
            assert self.found(self.members) == before, "something was done before its version was seen"
            SeenVersion.objects.create(seen_in="answer", consumer=self.name, version=awaited["version"])
            begin_awaited()
        self._to_its_end()
        members = set(undecided)
        check(
            Expected(
                before={message: before[message] for message in undecided},
                after=self.found(undecided),
                operation=self._now(),
                skipped=set(fetch_values(_SKIPPED, {"id": self.operation})),
                accepted=None if self.plan.by_job else foreseen.accepted,
                begun=[one for one in self.worker.begun if one.message in members and one.operation == self.operation],
                outcomes={message: self._answer(message)[0] for message in undecided},
                rate_per_second=self.plan.rate_per_second,
                is_patch=action is OperationAction.PATCH,
                bystanders=self.found(self.bystanders),
            )
        )

    def _begin(self, selection: int, action: OperationAction, params: Mapping[str, Any]) -> int:
        if self.plan.signs_off:
            save_sign_off_rule(f"{self.name}.#", None, above=2, principal=principal("ada", Role.ADMIN))
        awaited = BeginWhen(self.name, f"2.{self.operation}") if self.plan.awaits else None
        pace = Pace(self.plan.rate_per_second, has_canary=self.plan.has_canary)
        terms = OperationTerms(pace, begin_when=awaited, waive=() if self.plan.guards else None)
        if not self._is_job(action):
            return begin(selection, action, reason="mended", principal=self.by, params=params, terms=terms)
        job = save_restart_job(
            self.name,
            schedule=None,
            action="approve",
            reason="mended",
            filter={"address": [f"{self.name}.#"], "state": ["NDLV"]},
            rate_per_second=self.plan.rate_per_second,
            canary=self.plan.has_canary,
            is_enabled=False,
            principal=SYSTEM,
        )
        made = run_once(job.id, principal=SYSTEM)
        assert made.operation_id is not None, made.outcome
        return made.operation_id

    def _is_job(self, action: OperationAction) -> bool:
        return self.plan.by_job and action is OperationAction.APPROVE

    def _to_its_end(self) -> None:
        """Let the worker deliver; who has paused it resumes it, who sees it halted or held goes on or cancels it."""
        self.worker.work()
        if self.interrupt == "pause" and self.is_interrupted:
            later = [one for one in self.worker.begun[self.begun_by_then :] if one.operation == self.operation]
            assert not later, f"{len(later)} began while it was paused"
            self._change(OperationChange.RESUME)
            self.worker.work()
        if self._now().state == "halted":
            self._change(OperationChange.RESUME)
            self.worker.work()
        if self._now().ended_at is None and self._now().state != "cancelling":
            holds = self.plan.bad is not None and "ordered" in self.plan.policy
            assert holds, f"it does not end: {self._now().ledger}"
            self._change(OperationChange.CANCEL)  # what fails again holds its successors
        carry_on()
        self.worker.work()
        assert self._now().state in ("completed", "cancelled"), self._now()

    def _change(self, what: OperationChange) -> None:
        change(self.operation, what, reason="a person", principal=SYSTEM)

    def _now(self) -> OperationDetail:
        return get_operation(self.operation, principal=SYSTEM)

    # What becomes of the members' rows.

    def _then(self, what: str) -> None:
        if what == "hold":
            hold({"address": f"{self.name}.#"}, reason="lawsuit", principal=SYSTEM)
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE message SET state_at = now() - interval '500 days' WHERE id = ANY(%s)", [self.members]
            )
        request_archive_run(principal=SYSTEM)
        carry_out(runs.work(InProcessStore(settings.ARCHIVE)), worker="batch", seconds=60)
        left = [one.state for one in self.found(self.members).values() if one.state in ("DLVD", "FAIL")]
        assert bool(left) is ("hold" in self.plan.then)
