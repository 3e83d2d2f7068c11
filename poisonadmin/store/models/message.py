"""A message in three tables: the narrow row that every state change rewrites, what never changes, and the bytes.

None of the three has a database foreign key: rows arrive by the hundred thousand from set-based statements that join on
the referenced row anyway, and a trigger a row would halve that rate (decision 2).
"""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Case, F, Q, When
from django.db.models.functions import Now

from poisonadmin.messages.domain.states import Reason, State
from poisonadmin.store.models.constraints import KEPT_BUT_PAYLOADS, only_values_of


class Message(models.Model):
    """The current state of a message. About 150 bytes, no text that a producer wrote; fillfactor 50.

    No index names `state`, `attempt_number` or what a claim writes, in its columns or its predicate, so that claiming
    and delivering rewrite the row on its page and touch no index (decision 5). `due_at` is
    therefore left as it was once a message is delivered, and means something in TBDL only. `expires_at` is set while
    the message may still expire; the producer's word is the envelope's. `blacklisted_at` is `state_at` while the
    message is blacklisted, and None otherwise, so that the blacklist has an index which nothing else touches.
    `undecided_at` is the same for messages that wait for a decision. `operation_id`: the latest operation that had it
    delivered.
    """

    id = models.BigAutoField(primary_key=True)
    address = models.ForeignKey("store.Address", models.DO_NOTHING, db_constraint=False, db_index=False)
    lane = models.ForeignKey("store.Lane", models.DO_NOTHING, db_constraint=False, db_index=False)
    state = models.CharField(max_length=4)
    reason = models.CharField(max_length=32, null=True)
    state_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    attempt_number = models.IntegerField(db_default=0)
    failure_count = models.IntegerField(db_default=0)
    crash_count = models.SmallIntegerField(db_default=0)
    candidate = models.BooleanField(db_default=False)
    claim_id = models.BigIntegerField(null=True)
    shard = models.SmallIntegerField(null=True)
    start_at = models.DateTimeField(null=True)
    group = models.ForeignKey(
        "store.FailureGroup", models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    failed_at = models.DateTimeField(null=True)
    original_address = models.ForeignKey(
        "store.Address", models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    operation_id = models.BigIntegerField(null=True)
    is_undecided = models.GeneratedField(
        expression=Q(state=State.NDLV),  # type: ignore[arg-type]
        output_field=models.BooleanField(),
        db_persist=True,
    )
    is_given_up = models.GeneratedField(
        expression=Q(state=State.FAIL),  # type: ignore[arg-type]
        output_field=models.BooleanField(),
        db_persist=True,
    )

    blacklisted_at = models.GeneratedField(
        expression=Case(When(state=State.NDLV, reason=Reason.BLACKLISTED, then=F("state_at"))),
        output_field=models.DateTimeField(null=True),
        db_persist=True,
        null=True,
    )

    undecided_at = models.GeneratedField(
        expression=Case(When(state=State.NDLV, then=F("state_at"))),
        output_field=models.DateTimeField(null=True),
        db_persist=True,
        null=True,
    )

    class Meta:
        db_table = "message"
        constraints = [
            only_values_of("state", State),
            only_values_of("reason", Reason, nullable=True),
            models.CheckConstraint(
                condition=~Q(state=State.TBDL) | Q(due_at__isnull=False), name="message_tbdl_has_due_at"
            ),
            models.CheckConstraint(
                condition=~Q(state=State.DLNG) | Q(claim_id__isnull=False, shard__isnull=False),
                name="message_dlng_has_claim",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=[State.NDLV, State.FAIL]) | Q(reason__isnull=False),
                name="message_stop_has_reason",
            ),
        ]
        indexes = [
            models.Index("lane", "due_at", name="message_due", condition=Q(due_at__isnull=False)),
            models.Index("expires_at", name="message_expiry", condition=Q(expires_at__isnull=False)),
            # A list of one state is merged from its reasons: whatever is rare among millions is found at once.
            models.Index("reason", "id", name="message_undecided", condition=Q(is_undecided=True)),
            models.Index("reason", "id", name="message_given_up", condition=Q(is_given_up=True)),
            models.Index(
                "reason",
                "id",
                name="message_with_reason",
                condition=Q(is_undecided=False, is_given_up=False, reason__isnull=False),
            ),
            # So are the lists of an address, an original address or a group, from what is undecided, given up and
            # neither. A change of these writes to every index anyway.
            models.Index("address", "is_undecided", "is_given_up", "id", name="message_by_address"),
            # The address as a key column, so that a narrowed blacklist is filtered without a look at the rows.
            models.Index(
                "blacklisted_at",
                "id",
                "address",
                name="message_blacklisted",
                condition=Q(blacklisted_at__isnull=False),
            ),
            models.Index(
                "id",
                name="message_candidates",
                condition=Q(candidate=True, is_undecided=False, is_given_up=False),
            ),
            # The address as a key column, for who sees some addresses only.
            models.Index(
                "undecided_at",
                "id",
                "address",
                name="message_waits_longest",
                condition=Q(undecided_at__isnull=False),
            ),
            models.Index(
                "original_address",
                "is_undecided",
                "is_given_up",
                "id",
                name="message_by_original",
                condition=Q(original_address__isnull=False),
            ),
            # What failed out of the order of ids (search/queries/id_bounds.py); so does the one of envelopes.
            # Of an expression, so that nobody who names ids is led there.
            BrinIndex(F("id") + 0, "failed_at", name="message_in_time", pages_per_range=32, autosummarize=True),
            models.Index(
                "group",
                "is_undecided",
                "is_given_up",
                "id",
                name="message_by_group",
                condition=Q(group__isnull=False),
            ),
        ]


class Envelope(models.Model):
    """The producer's description of a message; only `payload_bytes` changes after intake. `id` is the message's."""

    id = models.BigIntegerField(primary_key=True)
    intake_address = models.ForeignKey("store.Address", models.DO_NOTHING, db_constraint=False, db_index=False)
    message_id = models.CharField(max_length=255)
    conversation_id = models.CharField(max_length=255, null=True)
    bookmark = models.CharField(max_length=255, null=True)
    content_type = models.CharField(max_length=255)
    payload_bytes = models.IntegerField()
    expires_at = models.DateTimeField(null=True)
    received_at = models.DateTimeField(db_default=Now())
    received_by = models.CharField(max_length=255)
    parent_id = models.BigIntegerField(null=True)

    class Meta:
        db_table = "envelope"
        constraints = [
            models.UniqueConstraint(fields=["intake_address", "message_id"], name="envelope_once_per_address")
        ]
        indexes = [
            models.Index(fields=["message_id"], opclasses=["varchar_pattern_ops"], name="envelope_by_message_id"),
            models.Index(
                fields=["conversation_id", "id"],
                opclasses=["varchar_pattern_ops", "int8_ops"],
                name="envelope_in_conversation",
                condition=Q(conversation_id__isnull=False),
            ),
            models.Index("bookmark", name="envelope_by_bookmark", condition=Q(bookmark__isnull=False)),
            BrinIndex(F("id") + 0, "received_at", name="envelope_in_time", pages_per_range=32, autosummarize=True),
        ]


class Body(models.Model):
    """The bytes of a message, as the next delivery carries them; what they were before is in `PayloadVersion`.

    `headers` is one JSON object of strings, UTF-8; both are parsed lazily and bounded.
    `transport`: JSON of what a broker said of it beyond headers (routing, typed properties, key), for the way back;
    NULL where it did not come from one.
    """

    id = models.BigIntegerField(primary_key=True)
    headers = models.BinaryField()
    payload = models.BinaryField()
    transport = models.BinaryField(null=True)

    class Meta:
        db_table = "body"


class PayloadVersion(models.Model):
    """Former content of a message that was changed; number 1 came in. The current content is its `Body`.

    `until_attempt`: the attempts up to this one, behind those of the version before, carried it; none where nothing was
    delivered in between. `operation_id`: the operation that replaced it.
    """

    pk = models.CompositePrimaryKey("message_id", "number")
    message_id = models.BigIntegerField()
    number = models.IntegerField()
    headers = models.BinaryField()
    payload = models.BinaryField()
    transport = models.BinaryField(null=True)
    until_attempt = models.IntegerField()
    replaced_at = models.DateTimeField(db_default=Now())
    replaced_by = models.CharField(max_length=255)
    operation_id = models.BigIntegerField()

    class Meta:
        db_table = "payload_version"
        triggers = KEPT_BUT_PAYLOADS


class Hop(models.Model):
    """One move of a message from an address to another; appended, never overwritten. Source: ART-11.

    `times`: how often a broker made this move, by its own word, its addresses being the broker's names; NULL for ours.
    """

    id = models.BigAutoField(primary_key=True)
    message_id = models.BigIntegerField(db_index=True)
    from_address = models.CharField(max_length=255)
    to_address = models.CharField(max_length=255)
    queue = models.CharField(max_length=400, null=True)  # an address between a prefix and a suffix
    reason = models.CharField(max_length=255)
    by = models.CharField(max_length=255)
    times = models.IntegerField(null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "hop"
        indexes = [
            models.Index("queue", "to_address", "message_id", name="hop_by_queue", condition=Q(queue__isnull=False))
        ]


class Confirmation(models.Model):
    """One row a message that was delivered to a broker: its last delivery there, and the consumer's confirmation.

    `confirm_by`: when an answer is overdue; NULL where none is awaited.
    """

    message_id = models.BigIntegerField(primary_key=True)
    attempt_number = models.IntegerField()
    destination_id = models.BigIntegerField()
    delivered_at = models.DateTimeField()
    confirm_by = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(null=True)
    confirmed_by = models.CharField(max_length=255, null=True)
    note = models.TextField(null=True)

    class Meta:
        db_table = "confirmation"
        indexes = [
            models.Index(
                "confirm_by",
                "message_id",
                name="confirmation_awaited",
                condition=Q(confirmed_at__isnull=True, confirm_by__isnull=False),
            )
        ]
