"""Selections, which are frozen sets of messages, operations on them, and the sign-offs that these need."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.decisions.operations.domain.lifecycle import OperationState
from poisonadmin.decisions.sign_offs.domain import SignOffDecision
from poisonadmin.messages.domain.outcomes import RECORDED
from poisonadmin.messages.domain.states import ExclusionKind
from poisonadmin.search.domain.selection import SelectionOrder
from poisonadmin.store.models.constraints import only_values_of


class Selection(models.Model):
    """A set of messages as it was at `frozen_at`; what arrives or changes later does not join it.

    `filter`: parameters of `GET /messages/`; None where the ids were given. `most`: how many it was limited to.
    `ids_hash` as search/domain/selection.py says. `address_ids`: where the messages were; who does not see all of
    these does not see the selection. `person`: who made it; names may be alike. `reads_payloads`: members were
    chosen by what their payloads hold, and are shown to who may read these. `used_at`: when an operation was begun on
    it; one without is removed after `expires_at`.
    """

    id = models.BigAutoField(primary_key=True)
    filter = models.JSONField(null=True)
    ordering = models.CharField(max_length=16, db_default=SelectionOrder.OLDEST.value)
    most = models.IntegerField(null=True)
    count = models.IntegerField(db_default=0)
    ids_hash = models.CharField(max_length=64, db_default="")
    address_ids = ArrayField(models.BigIntegerField(), default=list)
    created_by = models.CharField(max_length=255)
    person = models.CharField(max_length=255, db_default="")
    reads_payloads = models.BooleanField(db_default=False)
    frozen_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "selection"
        constraints = [only_values_of("ordering", SelectionOrder)]
        indexes = [models.Index("expires_at", name="selection_unused", condition=Q(used_at__isnull=True))]


class SelectionPiece(models.Model):
    """Some members of a selection, their ids rising from `first_id` to `last_id`, with no other piece's between them.

    Pieces are walked in the order of `number`, which begins at 0.
    """

    pk = models.CompositePrimaryKey("selection_id", "number")
    selection_id = models.BigIntegerField()
    number = models.IntegerField()
    first_id = models.BigIntegerField()
    last_id = models.BigIntegerField()
    message_ids = ArrayField(models.BigIntegerField())

    class Meta:
        db_table = "selection_piece"


class Operation(models.Model):
    """A decision on a selection, and how far it is.

    `patterns`: the address patterns that who asked is limited to, as in `Principal`. `pieces`, `walked`: how many
    pieces and members of the selection it has looked at; `place`: how many of the next piece. `changed`: members that
    had nothing to wait for. Any other member has a row in `operation_result` once something is known of it.
    `has_lanes`: its messages wait on lanes of their own, behind those that nobody decided on in bulk. `canary`: the
    members that are tried first, in their order; `stage`: how many of its stages are over. While it `is_watched` what
    fails again halts it, as `halted_why` says. `ended_at`: when every member was accounted for. `requester`:
    `Principal.person` who asked. `sign_off`: the limit that it exceeds (`SignOffNeeded`), None for none; then another
    person says `sign_off_decision` before `sign_off_expires_at`, or an administrator `broke_glass_at` its beginning.
    `restart_job_id`: the restart job whose run it is; with `spares_crashed` it leaves alone what has crashed its
    consumer. `begin_when`: the `consumer` and `version` that it waits for (`BeginWhen`); `version_seen`: what it has
    begun for.
    """

    id = models.BigAutoField(primary_key=True)
    selection = models.ForeignKey(Selection, models.PROTECT)
    action = models.CharField(max_length=16)
    state = models.CharField(max_length=24)
    reason = models.TextField()
    params = models.JSONField(default=dict)
    rate_per_second = models.FloatField(null=True)
    has_lanes = models.BooleanField(db_default=False)
    count = models.IntegerField()
    pieces = models.IntegerField(db_default=0)
    place = models.IntegerField(db_default=0)
    walked = models.IntegerField(db_default=0)
    changed = models.IntegerField(db_default=0)
    canary = ArrayField(models.BigIntegerField(), null=True)
    stage = models.SmallIntegerField(db_default=0)
    is_watched = models.BooleanField(db_default=False)
    halted_why = models.TextField(null=True)
    requested_by = models.CharField(max_length=255)
    requester = models.CharField(max_length=255, db_default="")
    patterns = models.JSONField(default=list)
    requested_at = models.DateTimeField(db_default=Now())
    state_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    sign_off = models.JSONField(null=True)
    sign_off_expires_at = models.DateTimeField(null=True)
    sign_off_decision = models.CharField(max_length=8, null=True)
    sign_off_by = models.CharField(max_length=255, null=True)
    sign_off_at = models.DateTimeField(null=True)
    sign_off_reason = models.TextField(null=True)
    broke_glass_at = models.DateTimeField(null=True)
    restart_job_id = models.BigIntegerField(null=True)
    spares_crashed = models.BooleanField(db_default=False)
    begin_when = models.JSONField(null=True)
    version_seen = models.JSONField(null=True)

    class Meta:
        db_table = "operation"
        constraints = [
            only_values_of("action", OperationAction),
            only_values_of("state", OperationState),
            only_values_of("sign_off_decision", SignOffDecision, nullable=True),
            models.CheckConstraint(
                condition=~Q(state=OperationState.WAITING_FOR_SIGN_OFF.value) | Q(sign_off_expires_at__isnull=False),
                name="operation_sign_off_expires",
            ),
        ]
        indexes = [
            models.Index("id", name="operation_open", condition=Q(ended_at__isnull=True)),
            models.Index(
                fields=["requester", "action", "requested_at"],
                name="operation_by_requester",
                condition=Q(sign_off__isnull=True),
            ),
            models.Index("ended_at", name="operation_ended", condition=Q(ended_at__isnull=False)),
            models.Index(
                "sign_off_expires_at", name="operation_sign_off", condition=Q(sign_off_expires_at__isnull=False)
            ),
            models.Index("id", name="operation_broke_glass", condition=Q(broke_glass_at__isnull=False)),
        ]


class OperationPace(models.Model):
    """When the next delivery of an operation with a rate may begin; apart from its row, which a walk holds."""

    operation_id = models.BigIntegerField(primary_key=True)
    rate_per_second = models.FloatField()
    next_slot = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "operation_pace"


class OperationResult(models.Model):
    """The outcome of a member of an operation. `code`: why it was skipped, with the values of that sentence.

    `group_id`: the group of the member's fingerprint before, `failed_group_id` that of its latest failure since.
    """

    # Those of a message are found by it: they go to the archive with it.
    pk = models.CompositePrimaryKey("message_id", "operation_id")
    operation_id = models.BigIntegerField()
    message_id = models.BigIntegerField()
    outcome = models.CharField(max_length=16)
    code = models.CharField(max_length=32, null=True)
    detail = models.CharField(max_length=255, null=True)
    group_id = models.BigIntegerField(null=True)
    failed_group_id = models.BigIntegerField(null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "operation_result"
        constraints = [only_values_of("outcome", RECORDED)]
        indexes = [models.Index("operation_id", "outcome", "code", "message_id", name="operation_result_by_outcome")]


class LiftedExclusion(models.Model):
    """One thing that an operation took away so that messages may be delivered again; cancelling it puts that back.

    `former`: of an entry of the poison list its id and counts, of an ended conversation its row. `at`: as in
    `released_at` of the entry.
    """

    id = models.BigAutoField(primary_key=True)
    operation_id = models.BigIntegerField(db_index=True)
    kind = models.CharField(max_length=16)
    former = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        db_table = "lifted_exclusion"
        constraints = [only_values_of("kind", ExclusionKind)]


class SignOffRule(models.Model):
    """An operation on more than `above` messages at addresses that `match` needs a sign-off. `action` None: any."""

    id = models.BigAutoField(primary_key=True)
    match = models.CharField(max_length=255)
    action = models.CharField(max_length=16, null=True)
    above = models.IntegerField()
    version = models.IntegerField(db_default=1)
    updated_by = models.CharField(max_length=255)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "sign_off_rule"
        verbose_name = "sign-off rule"
        constraints = [
            only_values_of("action", OperationAction, nullable=True),
            models.UniqueConstraint(fields=["match", "action"], name="sign_off_rule_once", nulls_distinct=False),
        ]
