"""All tables. A database that the 43 former migrations made, those of 723c9e82, is taken over."""

from pathlib import Path

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

from poisonadmin.store.takeover import TablesOrTakeover

_HERE = Path(__file__).parent
_TABLES = [
    # The order of the history along a message's life; no column owns it, since the key is (message_id, seq).
    migrations.RunSQL("CREATE SEQUENCE history_seq", "DROP SEQUENCE history_seq"),
    migrations.CreateModel(
        name="Address",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=255, unique=True)),
            ("status", models.CharField(db_default="ON", max_length=8)),
            ("status_by", models.CharField(max_length=255, null=True)),
            ("status_note", models.TextField(null=True)),
            ("status_message_id", models.BigIntegerField(null=True)),
            ("status_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("blame", models.CharField(db_default="exact", max_length=16)),
            ("max_payload_bytes", models.BigIntegerField(db_default=67108864)),
            ("is_ordered", models.BooleanField(db_default=False)),
            ("is_watched", models.BooleanField(db_default=False)),
            ("rollbacks_in_row", models.IntegerField(db_default=0)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "address",
        },
    ),
    migrations.CreateModel(
        name="ArchiveLeftOut",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "piece_id", "message_id", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("piece_id", models.BigIntegerField()),
            ("message_id", models.BigIntegerField()),
        ],
        options={
            "db_table": "archive_left_out",
        },
    ),
    migrations.CreateModel(
        name="AuditSeal",
        fields=[
            ("audit_id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("row_hash", models.BinaryField()),
            ("chain_hash", models.BinaryField()),
            ("sealed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "audit_seal",
        },
    ),
    migrations.CreateModel(
        name="Body",
        fields=[
            ("id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("headers", models.BinaryField()),
            ("payload", models.BinaryField()),
            ("transport", models.BinaryField(null=True)),
        ],
        options={
            "db_table": "body",
        },
    ),
    migrations.CreateModel(
        name="BrokerReceipt",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("digest", models.BinaryField()),
            ("owner", models.IntegerField(db_default=0)),
            ("stored_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "broker_receipt",
        },
    ),
    migrations.CreateModel(
        name="BusinessKey",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "message_id", "name", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("message_id", models.BigIntegerField()),
            ("name", models.CharField(max_length=100)),
            ("value", models.CharField(max_length=255)),
        ],
        options={
            "db_table": "business_key",
        },
    ),
    migrations.CreateModel(
        name="Claim",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("claimed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("lease_until", models.DateTimeField()),
            ("shards", models.SmallIntegerField()),
            ("size", models.IntegerField()),
            ("settled", models.IntegerField(db_default=0)),
            ("plan", models.JSONField(default=dict)),
            ("is_open", models.BooleanField(db_default=True)),
            ("is_stopping", models.BooleanField(db_default=False)),
            ("is_isolation", models.BooleanField(db_default=False)),
        ],
        options={
            "db_table": "claim",
        },
    ),
    migrations.CreateModel(
        name="ClaimShard",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "claim_id", "shard", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("claim_id", models.BigIntegerField()),
            ("shard", models.SmallIntegerField()),
            ("message_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
            ("sizes", models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict)),
        ],
        options={
            "db_table": "claim_shard",
        },
    ),
    migrations.CreateModel(
        name="Confirmation",
        fields=[
            ("message_id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("attempt_number", models.IntegerField()),
            ("destination_id", models.BigIntegerField()),
            ("delivered_at", models.DateTimeField()),
            ("confirm_by", models.DateTimeField(null=True)),
            ("confirmed_at", models.DateTimeField(null=True)),
            ("confirmed_by", models.CharField(max_length=255, null=True)),
            ("note", models.TextField(null=True)),
        ],
        options={
            "db_table": "confirmation",
        },
    ),
    migrations.CreateModel(
        name="Consumer",
        fields=[
            ("name", models.CharField(max_length=100, primary_key=True, serialize=False)),
            ("source", models.CharField(max_length=255)),
            ("version", models.CharField(max_length=100, null=True)),
            ("host", models.CharField(max_length=255)),
            ("pid", models.IntegerField()),
            ("bookmark", models.CharField(max_length=255, null=True)),
            ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("heartbeat_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("ended_at", models.DateTimeField(null=True)),
            ("reported_by", models.CharField(max_length=255)),
        ],
        options={
            "db_table": "consumer",
        },
    ),
    migrations.CreateModel(
        name="Conversation",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "address_id", "conversation_id", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("address_id", models.BigIntegerField()),
            ("conversation_id", models.CharField(max_length=255)),
            ("failures", models.IntegerField(db_default=0)),
            ("last_message_id", models.BigIntegerField(null=True)),
            ("failed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("ended_at", models.DateTimeField(null=True)),
            ("error_code", models.IntegerField(null=True)),
            ("error", models.TextField(null=True)),
        ],
        options={
            "db_table": "conversation",
        },
    ),
    migrations.CreateModel(
        name="Counter",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("address_id", models.BigIntegerField()),
            ("state", models.CharField(max_length=4)),
            ("reason", models.CharField(max_length=32, null=True)),
            ("group_id", models.BigIntegerField(null=True)),
            ("original_address_id", models.BigIntegerField(null=True)),
            ("total", models.BigIntegerField()),
        ],
        options={
            "db_table": "counter",
        },
    ),
    migrations.CreateModel(
        name="CounterCheck",
        fields=[
            ("address_id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("checked_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("seconds", models.FloatField()),
            ("wrong", models.BigIntegerField()),
        ],
        options={
            "db_table": "counter_check",
        },
    ),
    migrations.CreateModel(
        name="CounterDelta",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("address_id", models.BigIntegerField()),
            ("state", models.CharField(max_length=4)),
            ("reason", models.CharField(max_length=32, null=True)),
            ("group_id", models.BigIntegerField(null=True)),
            ("original_address_id", models.BigIntegerField(null=True)),
            ("delta", models.BigIntegerField()),
        ],
        options={
            "db_table": "counter_delta",
        },
    ),
    migrations.CreateModel(
        name="DayFigure",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "day", "address_id", "figure", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("day", models.DateField()),
            ("address_id", models.BigIntegerField()),
            ("figure", models.CharField(max_length=20)),
            ("n", models.BigIntegerField()),
        ],
        options={
            "db_table": "day_figure",
        },
    ),
    migrations.CreateModel(
        name="Destination",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=100, unique=True)),
            ("owner", models.CharField(db_default="#", max_length=255)),
            ("kind", models.CharField(max_length=16)),
            ("config", models.JSONField(default=dict)),
            ("secrets", models.JSONField(default=dict)),
            ("max_rate_per_second", models.FloatField(null=True)),
            ("is_enabled", models.BooleanField(db_default=True)),
            ("window", models.IntegerField(db_default=256)),
            ("slowed_by", models.TextField(null=True)),
            ("next_slot", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("version", models.IntegerField(db_default=1)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "destination",
        },
    ),
    migrations.CreateModel(
        name="Envelope",
        fields=[
            ("id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("message_id", models.CharField(max_length=255)),
            ("conversation_id", models.CharField(max_length=255, null=True)),
            ("bookmark", models.CharField(max_length=255, null=True)),
            ("content_type", models.CharField(max_length=255)),
            ("payload_bytes", models.IntegerField()),
            ("expires_at", models.DateTimeField(null=True)),
            ("received_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("received_by", models.CharField(max_length=255)),
            ("parent_id", models.BigIntegerField(null=True)),
        ],
        options={
            "db_table": "envelope",
        },
    ),
    migrations.CreateModel(
        name="ErasedMessage",
        fields=[
            ("id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("erasure_id", models.BigIntegerField()),
            ("address_id", models.BigIntegerField()),
            ("erased_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "erased_message",
        },
    ),
    migrations.CreateModel(
        name="FailureGroup",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("fingerprint", models.CharField(max_length=16, unique=True)),
            ("version", models.SmallIntegerField()),
            ("title", models.CharField(max_length=300)),
            ("error_class", models.CharField(max_length=255)),
            ("sample_message_id", models.BigIntegerField(null=True)),
            ("first_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("last_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("failures", models.BigIntegerField(db_default=0)),
            ("quiet_since", models.DateTimeField(null=True)),
            ("resumed_at", models.DateTimeField(null=True)),
            ("is_unseen", models.BooleanField(db_default=True)),
        ],
        options={
            "db_table": "failure_group",
        },
    ),
    migrations.CreateModel(
        name="FailureWords",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("words", models.TextField()),
            ("message_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
            ("attempt_numbers", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
        ],
        options={
            "db_table": "failure_words",
        },
    ),
    migrations.CreateModel(
        name="FingerprintAlias",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("former", models.CharField(max_length=16)),
            ("message_id", models.BigIntegerField(null=True)),
            ("attempt_number", models.IntegerField(null=True)),
            ("fingerprint", models.CharField(max_length=16)),
        ],
        options={
            "db_table": "fingerprint_alias",
        },
    ),
    migrations.CreateModel(
        name="GroupHour",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "group_id", "hour", "address_id", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("group_id", models.BigIntegerField()),
            ("hour", models.DateTimeField()),
            ("address_id", models.BigIntegerField()),
            ("failures", models.BigIntegerField()),
        ],
        options={
            "db_table": "group_hour",
        },
    ),
    migrations.CreateModel(
        name="GroupProposal",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("state", models.CharField(db_default="open", max_length=12)),
            ("place", models.IntegerField()),
            ("into_id", models.BigIntegerField()),
            ("group_id", models.BigIntegerField()),
            ("into_member", models.BigIntegerField()),
            ("group_member", models.BigIntegerField()),
            ("into_message", models.BigIntegerField()),
            ("group_message", models.BigIntegerField()),
            ("into_failure", models.JSONField()),
            ("group_failure", models.JSONField()),
            ("similarity", models.FloatField()),
            ("text", models.TextField()),
            ("digest", models.CharField(max_length=16, unique=True)),
            ("dismissed_by", models.CharField(max_length=255, null=True)),
            ("dismissed_at", models.DateTimeField(null=True)),
        ],
        options={
            "db_table": "group_proposal",
        },
    ),
    migrations.CreateModel(
        name="GroupVersion",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "group_id",
                    "consumer_version",
                    "address_id",
                    blank=True,
                    editable=False,
                    primary_key=True,
                    serialize=False,
                ),
            ),
            ("group_id", models.BigIntegerField()),
            ("consumer_version", models.CharField(max_length=100)),
            ("address_id", models.BigIntegerField()),
            ("first_at", models.DateTimeField()),
            ("last_at", models.DateTimeField()),
            ("failures", models.BigIntegerField()),
        ],
        options={
            "db_table": "group_version",
        },
    ),
    migrations.CreateModel(
        name="HeldMessage",
        fields=[
            ("message_id", models.BigIntegerField(primary_key=True, serialize=False)),
        ],
        options={
            "db_table": "held_message",
        },
    ),
    migrations.CreateModel(
        name="History",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "message_id", "seq", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("message_id", models.BigIntegerField()),
            ("seq", models.BigIntegerField(db_default=models.Func(models.Value("history_seq"), function="nextval"))),
            ("from_state", models.CharField(max_length=4, null=True)),
            ("to_state", models.CharField(max_length=4)),
            ("event", models.CharField(max_length=24)),
            ("reason", models.CharField(max_length=32, null=True)),
            ("attempt_number", models.IntegerField()),
            ("actor", models.CharField(max_length=255)),
            ("note", models.TextField(null=True)),
            ("operation_id", models.BigIntegerField(null=True)),
            ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "history",
        },
    ),
    migrations.CreateModel(
        name="Hop",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("message_id", models.BigIntegerField(db_index=True)),
            ("from_address", models.CharField(max_length=255)),
            ("to_address", models.CharField(max_length=255)),
            ("queue", models.CharField(max_length=400, null=True)),
            ("reason", models.CharField(max_length=255)),
            ("by", models.CharField(max_length=255)),
            ("times", models.IntegerField(null=True)),
            ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "hop",
        },
    ),
    migrations.CreateModel(
        name="IdempotencyKey",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("actor", models.CharField(max_length=255)),
            ("key", models.CharField(max_length=255)),
            ("request_digest", models.CharField(max_length=64)),
            ("status", models.SmallIntegerField(null=True)),
            ("response", models.BinaryField(null=True)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "idempotency_key",
        },
    ),
    migrations.CreateModel(
        name="Lane",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("conversation_id", models.CharField(max_length=255, null=True)),
            ("is_open", models.BooleanField(db_default=False)),
            ("next_due", models.DateTimeField(null=True)),
            ("head_id", models.BigIntegerField(null=True)),
            ("is_isolation", models.BooleanField(db_default=False)),
            ("operation_id", models.BigIntegerField(null=True)),
            ("is_held", models.BooleanField(db_default=False)),
            (
                "is_plain",
                models.GeneratedField(
                    db_persist=True,
                    expression=models.Q(
                        ("conversation_id__isnull", True), ("is_isolation", False), ("operation_id__isnull", True)
                    ),
                    output_field=models.BooleanField(),
                ),
            ),
        ],
        options={
            "db_table": "lane",
        },
    ),
    migrations.CreateModel(
        name="LegalHold",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("filter", models.JSONField(default=dict)),
            ("reason", models.TextField()),
            ("created_by", models.CharField(max_length=255)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("lifted_by", models.CharField(max_length=255, null=True)),
            ("lifted_at", models.DateTimeField(null=True)),
            ("lift_reason", models.TextField(null=True)),
        ],
        options={
            "db_table": "legal_hold",
        },
    ),
    migrations.CreateModel(
        name="LongRun",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("former_id", models.BigIntegerField(null=True)),
            ("kind", models.CharField(max_length=16)),
            ("state", models.CharField(db_default="queued", max_length=10)),
            ("params", models.JSONField(default=dict)),
            ("secrets", models.JSONField(null=True)),
            ("phase", models.CharField(max_length=100, null=True)),
            ("done", models.BigIntegerField(db_default=0)),
            ("total", models.BigIntegerField(null=True)),
            ("result", models.JSONField(null=True)),
            ("position", models.JSONField(null=True)),
            ("error", models.TextField(null=True)),
            ("requested_by", models.CharField(max_length=255)),
            ("account", models.CharField(db_default="", max_length=255)),
            ("patterns", models.JSONField(default=list)),
            ("tries", models.SmallIntegerField(db_default=0)),
            ("worker", models.CharField(max_length=255, null=True)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("started_at", models.DateTimeField(null=True)),
            ("heartbeat_at", models.DateTimeField(null=True)),
            ("ended_at", models.DateTimeField(null=True)),
            ("expires_at", models.DateTimeField(null=True)),
            ("resumes_at", models.DateTimeField(null=True)),
            ("turn_at", models.DateTimeField(null=True)),
        ],
        options={
            "db_table": "run",
        },
    ),
    migrations.CreateModel(
        name="Message",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("state", models.CharField(max_length=4)),
            ("reason", models.CharField(max_length=32, null=True)),
            ("state_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("due_at", models.DateTimeField(null=True)),
            ("expires_at", models.DateTimeField(null=True)),
            ("attempt_number", models.IntegerField(db_default=0)),
            ("failure_count", models.IntegerField(db_default=0)),
            ("crash_count", models.SmallIntegerField(db_default=0)),
            ("candidate", models.BooleanField(db_default=False)),
            ("claim_id", models.BigIntegerField(null=True)),
            ("shard", models.SmallIntegerField(null=True)),
            ("start_at", models.DateTimeField(null=True)),
            ("failed_at", models.DateTimeField(null=True)),
            ("operation_id", models.BigIntegerField(null=True)),
            (
                "is_undecided",
                models.GeneratedField(
                    db_persist=True, expression=models.Q(("state", "NDLV")), output_field=models.BooleanField()
                ),
            ),
            (
                "is_given_up",
                models.GeneratedField(
                    db_persist=True, expression=models.Q(("state", "FAIL")), output_field=models.BooleanField()
                ),
            ),
            (
                "blacklisted_at",
                models.GeneratedField(
                    db_persist=True,
                    expression=models.Case(models.When(reason="blacklisted", state="NDLV", then=models.F("state_at"))),
                    null=True,
                    output_field=models.DateTimeField(null=True),
                ),
            ),
            (
                "undecided_at",
                models.GeneratedField(
                    db_persist=True,
                    expression=models.Case(models.When(state="NDLV", then=models.F("state_at"))),
                    null=True,
                    output_field=models.DateTimeField(null=True),
                ),
            ),
        ],
        options={
            "db_table": "message",
        },
    ),
    migrations.CreateModel(
        name="Node",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=100)),
            ("host", models.CharField(max_length=100)),
            ("pid", models.IntegerField()),
            ("claim_id", models.BigIntegerField()),
            ("shard", models.SmallIntegerField()),
            ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("heartbeat_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("lease_until", models.DateTimeField()),
            ("ended_at", models.DateTimeField(null=True)),
            ("end", models.CharField(max_length=8, null=True)),
            ("journals", models.TextField(null=True)),
            ("start_mark", models.BigIntegerField(null=True)),
            ("begun", models.IntegerField(db_default=0)),
            (
                "unanswered",
                django.contrib.postgres.fields.ArrayField(
                    base_field=models.BigIntegerField(), db_default=models.Value("{}"), default=list, size=None
                ),
            ),
            (
                "released",
                django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), null=True, size=None),
            ),
            ("waits", models.BooleanField(db_default=False)),
            ("under_way", models.JSONField(null=True)),
            ("settled_at", models.DateTimeField(null=True)),
            ("tallies", models.JSONField(null=True)),
        ],
        options={
            "db_table": "node",
        },
    ),
    migrations.CreateModel(
        name="Operation",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("action", models.CharField(max_length=16)),
            ("state", models.CharField(max_length=24)),
            ("reason", models.TextField()),
            ("params", models.JSONField(default=dict)),
            ("rate_per_second", models.FloatField(null=True)),
            ("has_lanes", models.BooleanField(db_default=False)),
            ("count", models.IntegerField()),
            ("pieces", models.IntegerField(db_default=0)),
            ("place", models.IntegerField(db_default=0)),
            ("walked", models.IntegerField(db_default=0)),
            ("changed", models.IntegerField(db_default=0)),
            (
                "canary",
                django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), null=True, size=None),
            ),
            ("stage", models.SmallIntegerField(db_default=0)),
            ("is_watched", models.BooleanField(db_default=False)),
            ("halted_why", models.TextField(null=True)),
            ("requested_by", models.CharField(max_length=255)),
            ("requester", models.CharField(db_default="", max_length=255)),
            ("patterns", models.JSONField(default=list)),
            ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("state_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("ended_at", models.DateTimeField(null=True)),
            ("sign_off", models.JSONField(null=True)),
            ("sign_off_expires_at", models.DateTimeField(null=True)),
            ("sign_off_decision", models.CharField(max_length=8, null=True)),
            ("sign_off_by", models.CharField(max_length=255, null=True)),
            ("sign_off_at", models.DateTimeField(null=True)),
            ("sign_off_reason", models.TextField(null=True)),
            ("broke_glass_at", models.DateTimeField(null=True)),
            ("restart_job_id", models.BigIntegerField(null=True)),
            ("spares_crashed", models.BooleanField(db_default=False)),
        ],
        options={
            "db_table": "operation",
        },
    ),
    migrations.CreateModel(
        name="OperationPace",
        fields=[
            ("operation_id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("rate_per_second", models.FloatField()),
            ("next_slot", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "operation_pace",
        },
    ),
    migrations.CreateModel(
        name="OperationResult",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "message_id", "operation_id", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("operation_id", models.BigIntegerField()),
            ("message_id", models.BigIntegerField()),
            ("outcome", models.CharField(max_length=16)),
            ("code", models.CharField(max_length=32, null=True)),
            ("detail", models.CharField(max_length=255, null=True)),
            ("group_id", models.BigIntegerField(null=True)),
            ("failed_group_id", models.BigIntegerField(null=True)),
            ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "operation_result",
        },
    ),
    migrations.CreateModel(
        name="OutcomeBatch",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("claim_id", models.BigIntegerField()),
            ("message_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
            (
                "delivered",
                django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(null=True), size=None),
            ),
        ],
        options={
            "db_table": "outcome_batch",
        },
    ),
    migrations.CreateModel(
        name="PayloadVersion",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "message_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("message_id", models.BigIntegerField()),
            ("number", models.IntegerField()),
            ("headers", models.BinaryField()),
            ("payload", models.BinaryField()),
            ("transport", models.BinaryField(null=True)),
            ("until_attempt", models.IntegerField()),
            ("replaced_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("replaced_by", models.CharField(max_length=255)),
            ("operation_id", models.BigIntegerField()),
        ],
        options={
            "db_table": "payload_version",
        },
    ),
    migrations.CreateModel(
        name="PoisonEntry",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("source", models.CharField(max_length=255)),
            ("bookmark", models.CharField(max_length=255)),
            ("why", models.TextField()),
            ("is_listed", models.BooleanField(db_default=False)),
            ("is_fatal", models.BooleanField(db_default=False)),
            ("failures", models.IntegerField(db_default=0)),
            ("failure_limit", models.IntegerField(db_default=1)),
            ("crashes", models.IntegerField(db_default=0)),
            ("crash_limit", models.IntegerField(db_default=2)),
            ("reported_by", models.CharField(max_length=255)),
            ("first_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("last_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("listed_at", models.DateTimeField(null=True)),
            ("released_at", models.DateTimeField(null=True)),
            ("released_by", models.CharField(max_length=255, null=True)),
            ("note", models.TextField(null=True)),
            ("message_id", models.BigIntegerField(null=True)),
            ("change", models.BigIntegerField(db_default=0)),
        ],
        options={
            "db_table": "poison_entry",
        },
    ),
    migrations.CreateModel(
        name="PolicyRow",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("match", models.CharField(max_length=255, unique=True)),
            ("preset", models.CharField(max_length=32, null=True)),
            ("settings", models.JSONField(default=dict)),
            ("version", models.IntegerField(db_default=1)),
            ("updated_by", models.CharField(max_length=255)),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "policy",
        },
    ),
    migrations.CreateModel(
        name="RegroupMove",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "was", "fingerprint", "is_archived", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("was", models.CharField(max_length=16)),
            ("fingerprint", models.CharField(max_length=16)),
            ("is_archived", models.BooleanField()),
            ("n", models.BigIntegerField()),
            ("title", models.CharField(max_length=300)),
            ("error_class", models.CharField(max_length=255)),
            ("message_id", models.BigIntegerField()),
            ("attempt_number", models.IntegerField()),
            ("finished_at", models.DateTimeField()),
            ("last_at", models.DateTimeField()),
        ],
        options={
            "db_table": "regroup_move",
        },
    ),
    migrations.CreateModel(
        name="RejectedLine",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("batch", models.CharField(max_length=100)),
            ("line", models.BigIntegerField()),
            ("code", models.CharField(max_length=64)),
            ("detail", models.TextField()),
            ("raw", models.BinaryField()),
            ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "rejected_line",
        },
    ),
    migrations.CreateModel(
        name="RemovedPayload",
        fields=[
            ("message_id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("removed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("kept_days", models.IntegerField()),
            ("policy", models.CharField(max_length=255)),
        ],
        options={
            "db_table": "removed_payload",
        },
    ),
    migrations.CreateModel(
        name="Restart",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "restart_job_id", "message_id", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("restart_job_id", models.BigIntegerField()),
            ("message_id", models.BigIntegerField()),
            ("times", models.IntegerField(db_default=1)),
        ],
        options={
            "db_table": "restart",
        },
    ),
    migrations.CreateModel(
        name="RestartJob",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=100, unique=True)),
            ("schedule", models.CharField(max_length=100, null=True)),
            ("filter", models.JSONField(default=dict)),
            ("action", models.CharField(max_length=16)),
            ("reason", models.TextField()),
            ("include_blacklisted", models.BooleanField(db_default=False)),
            ("limit", models.IntegerField(null=True)),
            ("order", models.CharField(db_default="oldest", max_length=16)),
            ("max_restarts", models.IntegerField(db_default=1)),
            ("rate_per_second", models.FloatField(null=True)),
            ("canary", models.BooleanField(db_default=False)),
            ("is_enabled", models.BooleanField(db_default=False)),
            ("next_at", models.DateTimeField(null=True)),
            ("owner", models.CharField(max_length=255)),
            ("owner_account", models.CharField(max_length=255)),
            ("version", models.IntegerField(db_default=1)),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "restart_job",
        },
    ),
    migrations.CreateModel(
        name="RestartRun",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("restart_job_id", models.BigIntegerField()),
            ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("asked_by", models.CharField(max_length=255, null=True)),
            ("outcome", models.CharField(max_length=16)),
            ("detail", models.TextField(null=True)),
            ("operation_id", models.BigIntegerField(null=True)),
        ],
        options={
            "db_table": "restart_run",
        },
    ),
    migrations.CreateModel(
        name="Rule",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("stage", models.CharField(max_length=8)),
            ("position", models.IntegerField()),
            ("name", models.CharField(max_length=100, unique=True)),
            ("owner", models.CharField(max_length=255)),
            ("note", models.TextField(default="")),
            ("match", models.JSONField(default=dict)),
            ("action", models.JSONField(default=dict)),
            ("is_enabled", models.BooleanField(db_default=False)),
            ("ends_at", models.DateTimeField(null=True)),
            ("hits", models.BigIntegerField(db_default=0)),
            ("last_hit_at", models.DateTimeField(null=True)),
            ("version", models.IntegerField(db_default=1)),
            ("checked_version", models.IntegerField(null=True)),
            ("fault", models.TextField(null=True)),
            ("updated_by", models.CharField(max_length=255)),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "rule",
        },
    ),
    migrations.CreateModel(
        name="SavedReport",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=100)),
            ("owner", models.CharField(max_length=255)),
            ("owner_account", models.CharField(max_length=255)),
            ("is_shared", models.BooleanField(db_default=False)),
            ("asked", models.JSONField()),
            ("days", models.IntegerField(null=True)),
            ("schedule", models.CharField(max_length=100, null=True)),
            ("next_at", models.DateTimeField(null=True)),
            ("channel", models.CharField(max_length=16, null=True)),
            ("to", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
            (
                "secrets",
                django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
            ),
            ("last_error", models.TextField(null=True)),
            ("version", models.IntegerField(db_default=1)),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "saved_report",
        },
    ),
    migrations.CreateModel(
        name="SavedView",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=60)),
            ("owner", models.CharField(max_length=255)),
            ("is_shared", models.BooleanField(db_default=False)),
            ("query", models.TextField()),
            ("version", models.IntegerField(db_default=1)),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "saved_view",
        },
    ),
    migrations.CreateModel(
        name="SearchHit",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "search_id", "message_id", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("search_id", models.BigIntegerField()),
            ("message_id", models.BigIntegerField()),
            ("archived", models.JSONField(null=True)),
        ],
        options={
            "db_table": "search_hit",
        },
    ),
    migrations.CreateModel(
        name="Selection",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("filter", models.JSONField(null=True)),
            ("ordering", models.CharField(db_default="oldest", max_length=16)),
            ("most", models.IntegerField(null=True)),
            ("count", models.IntegerField(db_default=0)),
            ("ids_hash", models.CharField(db_default="", max_length=64)),
            (
                "address_ids",
                django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None),
            ),
            ("created_by", models.CharField(max_length=255)),
            ("reads_payloads", models.BooleanField(db_default=False)),
            ("frozen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("expires_at", models.DateTimeField()),
            ("used_at", models.DateTimeField(null=True)),
        ],
        options={
            "db_table": "selection",
        },
    ),
    migrations.CreateModel(
        name="SelectionPiece",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "selection_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("selection_id", models.BigIntegerField()),
            ("number", models.IntegerField()),
            ("first_id", models.BigIntegerField()),
            ("last_id", models.BigIntegerField()),
            ("message_ids", django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
        ],
        options={
            "db_table": "selection_piece",
        },
    ),
    migrations.CreateModel(
        name="SignOffRule",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("match", models.CharField(max_length=255)),
            ("action", models.CharField(max_length=16, null=True)),
            ("above", models.IntegerField()),
            ("version", models.IntegerField(db_default=1)),
            ("updated_by", models.CharField(max_length=255)),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "verbose_name": "sign-off rule",
            "db_table": "sign_off_rule",
        },
    ),
    migrations.CreateModel(
        name="Source",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=100, unique=True)),
            ("kind", models.CharField(max_length=16)),
            ("config", models.JSONField(default=dict)),
            ("secrets", models.JSONField(default=dict)),
            ("is_enabled", models.BooleanField(db_default=True)),
            ("lag", models.BigIntegerField(null=True)),
            ("checked_at", models.DateTimeField(null=True)),
            ("failures", models.IntegerField(db_default=0)),
            ("next_check_at", models.DateTimeField(null=True)),
            ("last_success_at", models.DateTimeField(null=True)),
            ("last_error", models.TextField(null=True)),
            ("last_error_at", models.DateTimeField(null=True)),
            ("accepted", models.BigIntegerField(db_default=0)),
            ("duplicates", models.BigIntegerField(db_default=0)),
            ("rejected", models.BigIntegerField(db_default=0)),
            ("returned", models.BigIntegerField(db_default=0)),
            ("version", models.IntegerField(db_default=1)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "source",
        },
    ),
    migrations.CreateModel(
        name="SourceFile",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("path", models.TextField()),
            ("size_bytes", models.BigIntegerField()),
            ("modified_ns", models.BigIntegerField()),
            ("state", models.CharField(db_default="seen", max_length=8)),
            ("job_id", models.BigIntegerField(null=True)),
            ("accepted", models.BigIntegerField(db_default=0)),
            ("duplicates", models.BigIntegerField(db_default=0)),
            ("rejected", models.BigIntegerField(db_default=0)),
            ("error", models.TextField(null=True)),
            ("seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("taken_at", models.DateTimeField(null=True)),
        ],
        options={
            "db_table": "source_file",
        },
    ),
    migrations.CreateModel(
        name="StagedMessage",
        fields=[
            ("id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("batch", models.CharField(max_length=100)),
            ("line", models.BigIntegerField()),
            ("address", models.CharField(max_length=255)),
            ("message_id", models.CharField(max_length=255)),
            ("conversation_id", models.CharField(max_length=255, null=True)),
            ("bookmark", models.CharField(max_length=255, null=True)),
            ("content_type", models.CharField(max_length=255)),
            ("payload_bytes", models.IntegerField()),
            ("expires_at", models.DateTimeField(null=True)),
            ("dead_letter", models.BinaryField(null=True)),
        ],
        options={
            "db_table": "staged_message",
        },
    ),
    migrations.CreateModel(
        name="Worker",
        fields=[
            ("name", models.CharField(max_length=100, primary_key=True, serialize=False)),
            ("host", models.CharField(max_length=100)),
            ("pid", models.IntegerField()),
            ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("heartbeat_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "worker",
        },
    ),
    migrations.CreateModel(
        name="Access",
        fields=[
            (
                "user",
                models.OneToOneField(
                    on_delete=django.db.models.deletion.CASCADE,
                    primary_key=True,
                    related_name="access",
                    serialize=False,
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            ("role", models.CharField(max_length=16)),
            (
                "address_patterns",
                django.contrib.postgres.fields.ArrayField(
                    base_field=models.CharField(max_length=255), default=list, size=None
                ),
            ),
        ],
        options={
            "db_table": "access",
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("role__in", ["admin", "operator", "reviewer", "viewer"])),
                    name="access_role_known",
                )
            ],
        },
    ),
    migrations.CreateModel(
        name="AlertRule",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=100, unique=True)),
            ("kinds", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), size=None)),
            (
                "addresses",
                django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255), size=None),
            ),
            ("limits", models.JSONField(default=dict)),
            ("search", models.CharField(db_default="", max_length=1000)),
            ("channel", models.CharField(max_length=16)),
            ("to", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
            (
                "secrets",
                django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
            ),
            ("old_secret_until", models.DateTimeField(null=True)),
            ("quiet_from", models.CharField(max_length=5, null=True)),
            ("quiet_until", models.CharField(max_length=5, null=True)),
            ("time_zone", models.CharField(max_length=64)),
            ("repeat_minutes", models.IntegerField()),
            ("send_resolved", models.BooleanField(db_default=False)),
            ("is_enabled", models.BooleanField(db_default=True)),
            ("failing_since", models.DateTimeField(null=True)),
            ("owner", models.CharField(max_length=255)),
            ("version", models.IntegerField(db_default=1)),
            ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
        ],
        options={
            "db_table": "alert_rule",
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("channel__in", ["email", "webhook"])), name="alertrule_channel_known"
                )
            ],
        },
    ),
    migrations.CreateModel(
        name="AlertDelivery",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("state", models.CharField(db_default="waiting", max_length=8)),
            ("is_held", models.BooleanField(db_default=False)),
            ("is_test", models.BooleanField(db_default=False)),
            ("is_resolution", models.BooleanField(db_default=False)),
            ("webhook_id", models.CharField(max_length=64, unique=True)),
            ("body", models.TextField(null=True)),
            ("tries", models.IntegerField(db_default=0)),
            ("planned_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("answered_at", models.DateTimeField(null=True)),
            ("log", models.JSONField(db_default=[], default=list)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("rule", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.alertrule")),
        ],
        options={
            "db_table": "alert_delivery",
        },
    ),
    migrations.CreateModel(
        name="Alert",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("kind", models.CharField(max_length=32)),
            ("subject", models.CharField(max_length=64)),
            ("mark", models.CharField(max_length=64)),
            ("title", models.CharField(max_length=300)),
            ("path", models.TextField()),
            ("facts", models.JSONField(default=dict)),
            ("opened_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("resolved_at", models.DateTimeField(null=True)),
            ("delivery", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.alertdelivery")),
            (
                "resolution",
                models.ForeignKey(
                    null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="store.alertdelivery"
                ),
            ),
            (
                "rule",
                models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="store.alertrule"),
            ),
        ],
        options={
            "db_table": "alert",
        },
    ),
    migrations.CreateModel(
        name="ApiToken",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.CharField(max_length=100)),
            ("digest", models.CharField(max_length=64, unique=True)),
            (
                "scopes",
                django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), size=None),
            ),
            (
                "address_patterns",
                django.contrib.postgres.fields.ArrayField(
                    base_field=models.CharField(max_length=255), default=list, size=None
                ),
            ),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("expires_at", models.DateTimeField(null=True)),
            ("last_used_at", models.DateTimeField(null=True)),
            ("revoked_at", models.DateTimeField(null=True)),
            (
                "user",
                models.ForeignKey(
                    on_delete=django.db.models.deletion.CASCADE, related_name="api_tokens", to=settings.AUTH_USER_MODEL
                ),
            ),
        ],
        options={
            "db_table": "api_token",
        },
    ),
    migrations.CreateModel(
        name="ArchivedMessage",
        fields=[
            ("id", models.BigIntegerField(primary_key=True, serialize=False)),
            ("piece_id", models.BigIntegerField()),
            ("address_id", models.BigIntegerField()),
            ("state", models.CharField(max_length=4)),
            ("reason", models.CharField(max_length=32, null=True)),
            ("group_id", models.BigIntegerField(null=True)),
            ("state_at", models.DateTimeField()),
            ("received_at", models.DateTimeField()),
            ("failed_at", models.DateTimeField(null=True)),
            ("message_id", models.CharField(max_length=255)),
            ("conversation_id", models.CharField(max_length=255, null=True)),
        ],
        options={
            "db_table": "archived_message",
            "indexes": [
                models.Index(fields=["message_id"], name="archived_by_message_id", opclasses=["varchar_pattern_ops"]),
                models.Index(
                    condition=models.Q(("conversation_id__isnull", False)),
                    fields=["conversation_id"],
                    name="archived_by_conversation",
                    opclasses=["varchar_pattern_ops"],
                ),
                models.Index(models.F("address_id"), models.F("id"), name="archived_by_address"),
            ],
        },
    ),
    migrations.CreateModel(
        name="ArchivedResult",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("operation_id", models.BigIntegerField()),
            ("piece_id", models.BigIntegerField(null=True)),
            ("outcome", models.CharField(max_length=16)),
            ("code", models.CharField(max_length=32, null=True)),
            ("n", models.IntegerField()),
            (
                "message_ids",
                django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None),
            ),
        ],
        options={
            "db_table": "archived_result",
            "indexes": [
                models.Index(models.F("operation_id"), models.F("outcome"), name="archived_result_of_operation"),
                models.Index(models.F("piece_id"), name="archived_result_of_piece"),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(
                        (
                            "outcome__in",
                            [
                                "blacklisted",
                                "cancelled",
                                "changed",
                                "confirmed",
                                "delivered",
                                "failed_new",
                                "failed_same",
                                "skipped",
                                "waiting",
                            ],
                        )
                    ),
                    name="archivedresult_outcome_known",
                )
            ],
        },
    ),
    migrations.CreateModel(
        name="ArchivePiece",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("run_id", models.BigIntegerField(db_index=True)),
            ("number", models.IntegerField()),
            ("after_id", models.BigIntegerField()),
            ("until_id", models.BigIntegerField()),
            ("state", models.CharField(db_default="planned", max_length=8)),
            (
                "held_by",
                django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None),
            ),
            ("rows", models.JSONField(default=dict)),
        ],
        options={
            "db_table": "archive_piece",
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("state__in", ["archived", "empty", "planned", "written"])),
                    name="archivepiece_state_known",
                ),
                models.UniqueConstraint(fields=("run_id", "number"), name="archive_piece_once"),
            ],
        },
    ),
    migrations.CreateModel(
        name="ArchiveFile",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("run_id", models.BigIntegerField(db_index=True)),
            ("table_name", models.CharField(max_length=20)),
            ("path", models.CharField(max_length=1000, unique=True)),
            ("day", models.DateField()),
            ("root", models.CharField(max_length=255)),
            ("rows", models.BigIntegerField()),
            ("bytes", models.BigIntegerField()),
            ("sha256", models.CharField(max_length=64)),
            ("rows_sha256", models.CharField(max_length=64)),
            ("first_id", models.BigIntegerField()),
            ("last_id", models.BigIntegerField()),
            ("is_current", models.BooleanField(db_default=False)),
            ("piece", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="store.archivepiece")),
        ],
        options={
            "db_table": "archive_file",
        },
    ),
    migrations.CreateModel(
        name="Attempt",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "message_id", "attempt_number", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("message_id", models.BigIntegerField()),
            ("attempt_number", models.IntegerField()),
            ("claim_id", models.BigIntegerField(null=True)),
            ("shard", models.SmallIntegerField(null=True)),
            ("destination_id", models.BigIntegerField(null=True)),
            ("started_at", models.DateTimeField(null=True)),
            ("finished_at", models.DateTimeField()),
            ("outcome", models.CharField(max_length=20)),
            ("error_class", models.CharField(max_length=255, null=True)),
            ("cause_class", models.CharField(max_length=255, null=True)),
            ("error_message", models.TextField(null=True)),
            ("stack", models.TextField(null=True)),
            ("fingerprint", models.CharField(max_length=16, null=True)),
            ("title", models.CharField(max_length=300, null=True)),
            ("status_code", models.SmallIntegerField(null=True)),
            ("retry_after_ms", models.BigIntegerField(null=True)),
            ("response", models.BinaryField(null=True)),
            ("exit_status", models.SmallIntegerField(null=True)),
            ("output", models.BinaryField(null=True)),
            ("move_to", models.CharField(max_length=255, null=True)),
            ("rule_id", models.BigIntegerField(null=True)),
            ("rule_action", models.CharField(max_length=20, null=True)),
            ("error_code", models.IntegerField(null=True)),
            ("consumer_version", models.CharField(max_length=100, null=True)),
        ],
        options={
            "db_table": "attempt",
            "indexes": [
                models.Index(
                    models.F("finished_at"),
                    models.F("message_id"),
                    condition=models.Q(("outcome", "delivered"), _negated=True),
                    name="attempt_failures",
                ),
                models.Index(
                    models.F("fingerprint"),
                    models.F("finished_at"),
                    models.F("message_id"),
                    condition=models.Q(("outcome", "delivered"), _negated=True),
                    name="attempt_by_group",
                ),
                models.Index(
                    models.F("claim_id"),
                    models.F("shard"),
                    models.F("message_id"),
                    condition=models.Q(("outcome__in", ("crashed", "node_lost", "suspected"))),
                    name="attempt_crashes",
                ),
                models.Index(
                    models.F("consumer_version"),
                    models.F("message_id"),
                    condition=models.Q(("consumer_version__isnull", False)),
                    name="attempt_by_version",
                ),
                django.contrib.postgres.indexes.BrinIndex(
                    fields=["finished_at"], name="attempt_by_time", pages_per_range=32
                ),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(
                        (
                            "outcome__in",
                            [
                                "conversation_ended",
                                "crashed",
                                "delivered",
                                "discarded",
                                "failed",
                                "imported",
                                "moved",
                                "node_lost",
                                "returned",
                                "rolled_back",
                                "ruled",
                                "suspected",
                            ],
                        )
                    ),
                    name="attempt_outcome_known",
                )
            ],
        },
    ),
    migrations.CreateModel(
        name="Audit",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ("actor", models.CharField(max_length=255)),
            ("action", models.CharField(max_length=64)),
            ("object_type", models.CharField(max_length=32)),
            ("object_id", models.CharField(max_length=255)),
            ("note", models.TextField(null=True)),
            ("details", models.JSONField(default=dict)),
            ("request_id", models.CharField(max_length=64, null=True)),
        ],
        options={
            "db_table": "audit",
            "indexes": [models.Index(models.F("object_type"), models.F("object_id"), name="audit_by_object")],
        },
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="audit",
        trigger=pgtrigger.compiler.Trigger(
            name="append_only",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                hash="fc5e3ab5f25c6e19ed6fd9c0b9e7909ce034c746",
                operation="UPDATE OR DELETE",
                pgid="pgtrigger_append_only_cceed",
                table="audit",
                when="BEFORE",
            ),
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="audit",
        trigger=pgtrigger.compiler.Trigger(
            name="never_emptied",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="RAISE EXCEPTION 'Cannot truncate rows from % table', TG_TABLE_NAME;",
                hash="bae8c02c7832bc263852f1695c81071477d77539",
                level="STATEMENT",
                operation="TRUNCATE",
                pgid="pgtrigger_never_emptied_9bb86",
                table="audit",
                when="BEFORE",
            ),
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="auditseal",
        trigger=pgtrigger.compiler.Trigger(
            name="append_only",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                hash="b8b9a7daacb645cb4d75abdd252578cd2a5f43b4",
                operation="UPDATE OR DELETE",
                pgid="pgtrigger_append_only_cd1a7",
                table="audit_seal",
                when="BEFORE",
            ),
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="auditseal",
        trigger=pgtrigger.compiler.Trigger(
            name="never_emptied",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="RAISE EXCEPTION 'Cannot truncate rows from % table', TG_TABLE_NAME;",
                hash="f12c7192ba5ec172932c955e34dbfd90146d513c",
                level="STATEMENT",
                operation="TRUNCATE",
                pgid="pgtrigger_never_emptied_975da",
                table="audit_seal",
                when="BEFORE",
            ),
        ),
    ),
    migrations.AddIndex(
        model_name="businesskey",
        index=models.Index(
            fields=["value", "name", "message_id"],
            name="business_key_look_up",
            opclasses=["varchar_pattern_ops", "varchar_ops", "int8_ops"],
        ),
    ),
    migrations.AddIndex(
        model_name="confirmation",
        index=models.Index(
            models.F("confirm_by"),
            models.F("message_id"),
            condition=models.Q(("confirm_by__isnull", False), ("confirmed_at__isnull", True)),
            name="confirmation_awaited",
        ),
    ),
    migrations.AddIndex(
        model_name="conversation",
        index=models.Index(
            models.F("address_id"),
            models.F("conversation_id"),
            condition=models.Q(("ended_at__isnull", False)),
            name="conversation_ended",
        ),
    ),
    migrations.AddIndex(
        model_name="counter",
        index=models.Index(
            models.F("group_id"),
            models.F("state"),
            condition=models.Q(("group_id__isnull", False)),
            name="counter_by_group",
        ),
    ),
    migrations.AddConstraint(
        model_name="counter",
        constraint=models.UniqueConstraint(
            fields=("address_id", "state", "reason", "group_id", "original_address_id"),
            name="counter_once",
            nulls_distinct=False,
        ),
    ),
    migrations.AddConstraint(
        model_name="destination",
        constraint=models.CheckConstraint(
            condition=models.Q(("kind__in", ["artemis", "handler", "http", "kafka", "rabbitmq"])),
            name="destination_kind_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="destination",
        constraint=models.CheckConstraint(condition=models.Q(("window__gte", 1)), name="destination_window_positive"),
    ),
    migrations.AddField(
        model_name="address",
        name="destination",
        field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to="store.destination"),
    ),
    migrations.AddField(
        model_name="envelope",
        name="intake_address",
        field=models.ForeignKey(
            db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to="store.address"
        ),
    ),
    migrations.CreateModel(
        name="Annotation",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("message_id", models.BigIntegerField(null=True)),
            ("group_id", models.BigIntegerField(null=True)),
            (
                "owner",
                models.ForeignKey(
                    db_constraint=False,
                    db_index=False,
                    null=True,
                    on_delete=django.db.models.deletion.SET_NULL,
                    related_name="+",
                    to=settings.AUTH_USER_MODEL,
                ),
            ),
            (
                "tags",
                django.contrib.postgres.fields.ArrayField(
                    base_field=models.CharField(max_length=50), default=list, size=None
                ),
            ),
            ("note", models.TextField(db_default="")),
            ("ticket_url", models.TextField(null=True)),
            ("snoozed_until", models.DateTimeField(null=True)),
            ("revision", models.IntegerField(db_default=0)),
        ],
        options={
            "db_table": "annotation",
            "indexes": [
                models.Index(
                    models.F("owner"),
                    models.F("message_id"),
                    condition=models.Q(("owner__isnull", False)),
                    name="annotation_by_owner",
                ),
                django.contrib.postgres.indexes.GinIndex(fields=["tags"], name="annotation_by_tag"),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(
                        models.Q(("group_id__isnull", True), ("message_id__isnull", False)),
                        models.Q(("group_id__isnull", False), ("message_id__isnull", True)),
                        _connector="OR",
                    ),
                    name="annotation_of_one_subject",
                ),
                models.UniqueConstraint(
                    condition=models.Q(("message_id__isnull", False)),
                    fields=("message_id",),
                    name="annotation_of_message",
                ),
                models.UniqueConstraint(
                    condition=models.Q(("group_id__isnull", False)), fields=("group_id",), name="annotation_of_group"
                ),
            ],
        },
    ),
    migrations.AddField(
        model_name="failuregroup",
        name="merged_into",
        field=models.ForeignKey(
            db_constraint=False,
            db_index=False,
            null=True,
            on_delete=django.db.models.deletion.DO_NOTHING,
            related_name="+",
            to="store.failuregroup",
        ),
    ),
    migrations.AddIndex(
        model_name="fingerprintalias",
        index=models.Index(
            models.F("message_id"),
            condition=models.Q(("message_id__isnull", False)),
            name="fingerprint_alias_of_message",
        ),
    ),
    migrations.AddIndex(
        model_name="fingerprintalias",
        index=models.Index(
            models.F("former"), condition=models.Q(("message_id__isnull", True)), name="fingerprint_alias_of_all"
        ),
    ),
    migrations.AddConstraint(
        model_name="fingerprintalias",
        constraint=models.UniqueConstraint(
            fields=("former", "message_id", "attempt_number"), name="fingerprint_alias_once", nulls_distinct=False
        ),
    ),
    migrations.AddIndex(
        model_name="groupproposal",
        index=models.Index(models.F("state"), models.F("place"), models.F("id"), name="group_proposal_listed"),
    ),
    migrations.AddIndex(
        model_name="groupproposal",
        index=models.Index(models.F("into_message"), name="group_proposal_by_into_message"),
    ),
    migrations.AddIndex(
        model_name="groupproposal",
        index=models.Index(models.F("group_message"), name="group_proposal_by_message"),
    ),
    migrations.AddConstraint(
        model_name="groupproposal",
        constraint=models.CheckConstraint(
            condition=models.Q(("state__in", ["dismissed", "open"])), name="groupproposal_state_known"
        ),
    ),
    migrations.AddIndex(
        model_name="history",
        index=django.contrib.postgres.indexes.BrinIndex(
            models.F("at"), autosummarize=True, name="history_in_time", pages_per_range=32
        ),
    ),
    migrations.AddConstraint(
        model_name="history",
        constraint=models.CheckConstraint(
            condition=models.Q(
                ("from_state__in", ["DLNG", "DLVD", "FAIL", "NDLV", "TBDL"]),
                ("from_state__isnull", True),
                _connector="OR",
            ),
            name="history_from_state_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="history",
        constraint=models.CheckConstraint(
            condition=models.Q(("to_state__in", ["DLNG", "DLVD", "FAIL", "NDLV", "TBDL"])),
            name="history_to_state_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="history",
        constraint=models.CheckConstraint(
            condition=models.Q(
                (
                    "event__in",
                    [
                        "approved",
                        "assigned",
                        "claimed",
                        "conversation_ended",
                        "crashed",
                        "deliver_now",
                        "delivered",
                        "discarded",
                        "enqueued",
                        "expired",
                        "failed",
                        "handed_back",
                        "imported",
                        "listed",
                        "marked_fail",
                        "moved",
                        "node_lost",
                        "operation_cancelled",
                        "outcome_lost",
                        "patched",
                        "postponed",
                        "quarantined",
                        "redirected",
                        "rejected",
                        "released",
                        "restored",
                        "restored_from_archive",
                        "returned",
                        "rolled_back",
                    ],
                )
            ),
            name="history_event_known",
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="history",
        trigger=pgtrigger.compiler.Trigger(
            name="append_only",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                hash="37025ab5f3e8800100a179a4dec4886d5a71107b",
                operation="UPDATE",
                pgid="pgtrigger_append_only_cc13b",
                table="history",
                when="BEFORE",
            ),
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="history",
        trigger=pgtrigger.compiler.Trigger(
            name="never_emptied",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="RAISE EXCEPTION 'Cannot truncate rows from % table', TG_TABLE_NAME;",
                hash="0ac664cc679ffc5f5af7ef9ea5a8e9c790e05f89",
                level="STATEMENT",
                operation="TRUNCATE",
                pgid="pgtrigger_never_emptied_9a66c",
                table="history",
                when="BEFORE",
            ),
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="history",
        trigger=pgtrigger.compiler.Trigger(
            name="goes_with_message",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                declare="DECLARE first bigint; last bigint;",
                func="\n            SELECT min(message_id), max(message_id) INTO first, last FROM gone;\n            IF EXISTS (SELECT FROM gone WHERE message_id IN (SELECT id FROM message WHERE id BETWEEN first AND last))\n               OR EXISTS (SELECT FROM gone WHERE message_id NOT IN (\n                   SELECT id FROM archived_message WHERE id BETWEEN first AND last\n                   UNION ALL SELECT id FROM erased_message WHERE id BETWEEN first AND last))\n            THEN\n                RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;\n            END IF;\n            RETURN NULL;\n        ",
                hash="a1df3c37b08671a2465674fa3f6e5fdb87c36894",
                level="STATEMENT",
                operation="DELETE",
                pgid="pgtrigger_goes_with_message_38c30",
                referencing="REFERENCING OLD TABLE AS gone ",
                table="history",
                when="AFTER",
            ),
        ),
    ),
    migrations.AddIndex(
        model_name="hop",
        index=models.Index(
            models.F("queue"),
            models.F("to_address"),
            models.F("message_id"),
            condition=models.Q(("queue__isnull", False)),
            name="hop_by_queue",
        ),
    ),
    migrations.AddConstraint(
        model_name="idempotencykey",
        constraint=models.UniqueConstraint(fields=("actor", "key"), name="idempotency_key_once"),
    ),
    migrations.AddField(
        model_name="lane",
        name="address",
        field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.address"),
    ),
    migrations.AddIndex(
        model_name="legalhold",
        index=models.Index(models.F("id"), condition=models.Q(("lifted_at__isnull", True)), name="legal_hold_in_force"),
    ),
    migrations.AddIndex(
        model_name="longrun",
        index=models.Index(
            models.F("kind"),
            models.F("id"),
            condition=models.Q(("state__in", ["queued", "running", "cancelling"])),
            name="run_open",
        ),
    ),
    migrations.AddIndex(
        model_name="longrun",
        index=models.Index(fields=["kind", "-id"], name="run_recent"),
    ),
    migrations.AddIndex(
        model_name="longrun",
        index=models.Index(
            models.F("expires_at"), condition=models.Q(("expires_at__isnull", False)), name="run_expiry"
        ),
    ),
    migrations.AddConstraint(
        model_name="longrun",
        constraint=models.CheckConstraint(
            condition=models.Q(("state__in", ["cancelled", "cancelling", "failed", "queued", "running", "succeeded"])),
            name="longrun_state_known",
        ),
    ),
    migrations.AddField(
        model_name="claim",
        name="job",
        field=models.ForeignKey(
            db_constraint=False,
            db_index=False,
            null=True,
            on_delete=django.db.models.deletion.DO_NOTHING,
            to="store.longrun",
        ),
    ),
    migrations.AddField(
        model_name="message",
        name="address",
        field=models.ForeignKey(
            db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to="store.address"
        ),
    ),
    migrations.AddField(
        model_name="message",
        name="group",
        field=models.ForeignKey(
            db_constraint=False,
            db_index=False,
            null=True,
            on_delete=django.db.models.deletion.DO_NOTHING,
            related_name="+",
            to="store.failuregroup",
        ),
    ),
    migrations.AddField(
        model_name="message",
        name="lane",
        field=models.ForeignKey(
            db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to="store.lane"
        ),
    ),
    migrations.AddField(
        model_name="message",
        name="original_address",
        field=models.ForeignKey(
            db_constraint=False,
            db_index=False,
            null=True,
            on_delete=django.db.models.deletion.DO_NOTHING,
            related_name="+",
            to="store.address",
        ),
    ),
    migrations.AddIndex(
        model_name="node",
        index=models.Index(models.F("id"), condition=models.Q(("ended_at__isnull", True)), name="node_alive"),
    ),
    migrations.AddIndex(
        model_name="node",
        index=models.Index(
            models.F("claim_id"),
            condition=models.Q(("ended_at__isnull", True), ("released__isnull", False)),
            name="node_releasing",
        ),
    ),
    migrations.AddIndex(
        model_name="node",
        index=models.Index(models.F("id"), condition=models.Q(("end", "lost")), name="node_lost"),
    ),
    migrations.AddIndex(
        model_name="node",
        index=models.Index(
            models.F("claim_id"),
            condition=models.Q(("ended_at__isnull", False), ("settled_at__isnull", True)),
            name="node_unsettled",
        ),
    ),
    migrations.AddConstraint(
        model_name="node",
        constraint=models.UniqueConstraint(fields=("claim_id", "shard"), name="node_once_per_shard"),
    ),
    migrations.AddConstraint(
        model_name="node",
        constraint=models.CheckConstraint(
            condition=models.Q(("end__in", ["clean", "fenced", "lost"]), ("end__isnull", True), _connector="OR"),
            name="node_end_known",
        ),
    ),
    migrations.AddIndex(
        model_name="operationresult",
        index=models.Index(
            models.F("operation_id"),
            models.F("outcome"),
            models.F("code"),
            models.F("message_id"),
            name="operation_result_by_outcome",
        ),
    ),
    migrations.AddConstraint(
        model_name="operationresult",
        constraint=models.CheckConstraint(
            condition=models.Q(
                (
                    "outcome__in",
                    [
                        "blacklisted",
                        "cancelled",
                        "changed",
                        "confirmed",
                        "delivered",
                        "failed_new",
                        "failed_same",
                        "skipped",
                        "waiting",
                    ],
                )
            ),
            name="operationresult_outcome_known",
        ),
    ),
    migrations.AddIndex(
        model_name="outcomebatch",
        index=models.Index(models.F("claim_id"), models.F("id"), name="outcome_batch_of_claim"),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="payloadversion",
        trigger=pgtrigger.compiler.Trigger(
            name="append_only",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="\n            IF octet_length(NEW.payload) = 0 AND to_jsonb(NEW) - 'payload' = to_jsonb(OLD) - 'payload'\n               AND EXISTS (SELECT FROM removed_payload WHERE message_id = OLD.message_id)\n            THEN\n                RETURN NEW;\n            END IF;\n            RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;\n        ",
                hash="4aabbbad72aad1d0ee3034825e4ab2119242fee3",
                operation="UPDATE",
                pgid="pgtrigger_append_only_35994",
                table="payload_version",
                when="BEFORE",
            ),
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="payloadversion",
        trigger=pgtrigger.compiler.Trigger(
            name="never_emptied",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                func="RAISE EXCEPTION 'Cannot truncate rows from % table', TG_TABLE_NAME;",
                hash="17d56e337470a8133f1da29881a7ae32a7d94af0",
                level="STATEMENT",
                operation="TRUNCATE",
                pgid="pgtrigger_never_emptied_190c4",
                table="payload_version",
                when="BEFORE",
            ),
        ),
    ),
    pgtrigger.migrations.AddTrigger(
        model_name="payloadversion",
        trigger=pgtrigger.compiler.Trigger(
            name="goes_with_message",
            sql=pgtrigger.compiler.UpsertTriggerSql(
                declare="DECLARE first bigint; last bigint;",
                func="\n            SELECT min(message_id), max(message_id) INTO first, last FROM gone;\n            IF EXISTS (SELECT FROM gone WHERE message_id IN (SELECT id FROM message WHERE id BETWEEN first AND last))\n               OR EXISTS (SELECT FROM gone WHERE message_id NOT IN (\n                   SELECT id FROM archived_message WHERE id BETWEEN first AND last\n                   UNION ALL SELECT id FROM erased_message WHERE id BETWEEN first AND last))\n            THEN\n                RAISE EXCEPTION 'pgtrigger: Cannot delete rows from % table', TG_TABLE_NAME;\n            END IF;\n            RETURN NULL;\n        ",
                hash="8d286d964ba1e8811cb42eefc5c7769e3062f648",
                level="STATEMENT",
                operation="DELETE",
                pgid="pgtrigger_goes_with_message_52a6e",
                referencing="REFERENCING OLD TABLE AS gone ",
                table="payload_version",
                when="AFTER",
            ),
        ),
    ),
    migrations.AddIndex(
        model_name="poisonentry",
        index=models.Index(
            models.F("source"), models.F("id"), condition=models.Q(("is_listed", True)), name="poison_entry_listed"
        ),
    ),
    migrations.AddIndex(
        model_name="poisonentry",
        index=models.Index(
            models.F("source"), models.F("change"), condition=models.Q(("change__gt", 0)), name="poison_entry_changes"
        ),
    ),
    migrations.AddIndex(
        model_name="poisonentry",
        index=models.Index(
            models.F("message_id"), condition=models.Q(("message_id__isnull", False)), name="poison_entry_message"
        ),
    ),
    migrations.AddConstraint(
        model_name="poisonentry",
        constraint=models.UniqueConstraint(fields=("source", "bookmark"), name="poison_entry_once"),
    ),
    migrations.AddField(
        model_name="policyrow",
        name="destination",
        field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to="store.destination"),
    ),
    migrations.AddIndex(
        model_name="restartjob",
        index=models.Index(models.F("next_at"), condition=models.Q(("is_enabled", True)), name="restart_job_due"),
    ),
    migrations.AddConstraint(
        model_name="restartjob",
        constraint=models.CheckConstraint(
            condition=models.Q(("action__in", ["approve", "fail", "return"])), name="restartjob_action_known"
        ),
    ),
    migrations.AddConstraint(
        model_name="restartjob",
        constraint=models.CheckConstraint(
            condition=models.Q(("order__in", ["newest", "newest_failure", "oldest", "oldest_failure", "random"])),
            name="restartjob_order_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="restartjob",
        constraint=models.CheckConstraint(
            condition=models.Q(("is_enabled", False), ("schedule__isnull", False), _connector="OR"),
            name="restart_job_on_by_schedule",
        ),
    ),
    migrations.AddIndex(
        model_name="restartrun",
        index=models.Index(fields=["restart_job_id", "-id"], name="restart_run_by_job"),
    ),
    migrations.AddConstraint(
        model_name="restartrun",
        constraint=models.CheckConstraint(
            condition=models.Q(("outcome__in", ["begun", "failed", "nothing", "refused", "skipped"])),
            name="restartrun_outcome_known",
        ),
    ),
    migrations.AddIndex(
        model_name="rule",
        index=models.Index(fields=["stage", "position"], name="rule_order"),
    ),
    migrations.AddConstraint(
        model_name="rule",
        constraint=models.CheckConstraint(
            condition=models.Q(("stage__in", ["after", "before"])), name="rule_stage_known"
        ),
    ),
    migrations.AddIndex(
        model_name="savedreport",
        index=models.Index(
            models.F("next_at"), condition=models.Q(("next_at__isnull", False)), name="saved_report_due"
        ),
    ),
    migrations.AddConstraint(
        model_name="savedreport",
        constraint=models.UniqueConstraint(fields=("owner", "name"), name="saved_report_name"),
    ),
    migrations.AddConstraint(
        model_name="savedreport",
        constraint=models.CheckConstraint(
            condition=models.Q(("channel__in", ["email", "webhook"]), ("channel__isnull", True), _connector="OR"),
            name="savedreport_channel_known",
        ),
    ),
    migrations.AddField(
        model_name="alertdelivery",
        name="saved",
        field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.savedreport"),
    ),
    migrations.AddIndex(
        model_name="savedview",
        index=models.Index(models.F("name"), condition=models.Q(("is_shared", True)), name="saved_view_shared"),
    ),
    migrations.AddConstraint(
        model_name="savedview",
        constraint=models.UniqueConstraint(fields=("owner", "name"), name="saved_view_name"),
    ),
    migrations.AddIndex(
        model_name="selection",
        index=models.Index(
            models.F("expires_at"), condition=models.Q(("used_at__isnull", True)), name="selection_unused"
        ),
    ),
    migrations.AddConstraint(
        model_name="selection",
        constraint=models.CheckConstraint(
            condition=models.Q(("ordering__in", ["newest", "newest_failure", "oldest", "oldest_failure", "random"])),
            name="selection_ordering_known",
        ),
    ),
    migrations.AddField(
        model_name="operation",
        name="selection",
        field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="store.selection"),
    ),
    migrations.AddConstraint(
        model_name="signoffrule",
        constraint=models.CheckConstraint(
            condition=models.Q(
                (
                    "action__in",
                    [
                        "approve",
                        "assign",
                        "deliver_now",
                        "fail",
                        "patch",
                        "postpone",
                        "quarantine",
                        "redirect",
                        "release",
                        "restore",
                        "return",
                    ],
                ),
                ("action__isnull", True),
                _connector="OR",
            ),
            name="signoffrule_action_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="signoffrule",
        constraint=models.UniqueConstraint(fields=("match", "action"), name="sign_off_rule_once", nulls_distinct=False),
    ),
    migrations.AddConstraint(
        model_name="source",
        constraint=models.CheckConstraint(
            condition=models.Q(("kind__in", ["artemis", "directory", "kafka", "rabbitmq"])), name="source_kind_known"
        ),
    ),
    migrations.AddField(
        model_name="rejectedline",
        name="source",
        field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.source"),
    ),
    migrations.AddField(
        model_name="brokerreceipt",
        name="source",
        field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="store.source"),
    ),
    migrations.AddField(
        model_name="sourcefile",
        name="source",
        field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="store.source"),
    ),
    migrations.AddField(
        model_name="rejectedline",
        name="source_file",
        field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to="store.sourcefile"),
    ),
    migrations.AddIndex(
        model_name="stagedmessage",
        index=models.Index(models.F("batch"), name="staged_message_by_batch"),
    ),
    migrations.AddConstraint(
        model_name="alert",
        constraint=models.UniqueConstraint(fields=("rule", "kind", "subject", "mark"), name="alert_once"),
    ),
    migrations.AddConstraint(
        model_name="alert",
        constraint=models.UniqueConstraint(
            condition=models.Q(("resolved_at__isnull", True)),
            fields=("rule", "kind", "subject"),
            name="alert_open_once",
        ),
    ),
    migrations.AddConstraint(
        model_name="alert",
        constraint=models.CheckConstraint(
            condition=models.Q(
                (
                    "kind__in",
                    [
                        "address_stopped",
                        "break_glass",
                        "counts_wrong",
                        "group_grows_again",
                        "new_group",
                        "oldest_undecided",
                        "operation_halted",
                        "overdue_deliveries",
                        "source_unreachable",
                    ],
                )
            ),
            name="alert_kind_known",
        ),
    ),
    migrations.AddIndex(
        model_name="archivefile",
        index=models.Index(
            models.F("table_name"),
            models.F("day"),
            models.F("root"),
            condition=models.Q(("is_current", True)),
            name="archive_file_read",
        ),
    ),
    migrations.AddIndex(
        model_name="address",
        index=models.Index(models.F("id"), condition=models.Q(("status", "STOPPED")), name="address_stopped"),
    ),
    migrations.AddConstraint(
        model_name="address",
        constraint=models.CheckConstraint(
            condition=models.Q(("status__in", ["ON", "PAUSED", "STOPPED"])), name="address_status_known"
        ),
    ),
    migrations.AddConstraint(
        model_name="address",
        constraint=models.CheckConstraint(
            condition=models.Q(("blame__in", ["all_in_flight", "exact"])), name="address_blame_known"
        ),
    ),
    migrations.AddIndex(
        model_name="envelope",
        index=models.Index(fields=["message_id"], name="envelope_by_message_id", opclasses=["varchar_pattern_ops"]),
    ),
    migrations.AddIndex(
        model_name="envelope",
        index=models.Index(
            condition=models.Q(("conversation_id__isnull", False)),
            fields=["conversation_id"],
            name="envelope_by_conversation",
            opclasses=["varchar_pattern_ops"],
        ),
    ),
    migrations.AddIndex(
        model_name="envelope",
        index=models.Index(
            models.F("bookmark"), condition=models.Q(("bookmark__isnull", False)), name="envelope_by_bookmark"
        ),
    ),
    migrations.AddIndex(
        model_name="envelope",
        index=django.contrib.postgres.indexes.BrinIndex(
            django.db.models.expressions.CombinedExpression(models.F("id"), "+", models.Value(0)),
            models.F("received_at"),
            autosummarize=True,
            name="envelope_in_time",
            pages_per_range=32,
        ),
    ),
    migrations.AddConstraint(
        model_name="envelope",
        constraint=models.UniqueConstraint(fields=("intake_address", "message_id"), name="envelope_once_per_address"),
    ),
    migrations.AddIndex(
        model_name="failuregroup",
        index=models.Index(fields=["-last_at"], name="failure_group_recent"),
    ),
    migrations.AddIndex(
        model_name="failuregroup",
        index=models.Index(
            models.F("merged_into"),
            models.F("id"),
            condition=models.Q(("merged_into__isnull", False)),
            name="failure_group_merged",
        ),
    ),
    migrations.AddIndex(
        model_name="failuregroup",
        index=models.Index(
            models.F("fingerprint"), condition=models.Q(("is_unseen", True)), name="failure_group_unseen"
        ),
    ),
    migrations.AddIndex(
        model_name="lane",
        index=models.Index(models.F("next_due"), condition=models.Q(("is_open", True)), name="lane_ready"),
    ),
    migrations.AddConstraint(
        model_name="lane",
        constraint=models.UniqueConstraint(
            fields=("address", "conversation_id", "is_isolation", "operation_id"),
            name="lane_once",
            nulls_distinct=False,
        ),
    ),
    migrations.AddConstraint(
        model_name="lane",
        constraint=models.UniqueConstraint(
            condition=models.Q(("is_plain", True)), fields=("address",), name="lane_plain_once"
        ),
    ),
    migrations.AddIndex(
        model_name="claim",
        index=models.Index(models.F("id"), condition=models.Q(("is_open", True)), name="claim_open"),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("lane"), models.F("due_at"), condition=models.Q(("due_at__isnull", False)), name="message_due"
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("expires_at"), condition=models.Q(("expires_at__isnull", False)), name="message_expiry"
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("reason"), models.F("id"), condition=models.Q(("is_undecided", True)), name="message_undecided"
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("reason"), models.F("id"), condition=models.Q(("is_given_up", True)), name="message_given_up"
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("reason"),
            models.F("id"),
            condition=models.Q(("is_given_up", False), ("is_undecided", False), ("reason__isnull", False)),
            name="message_with_reason",
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("address"),
            models.F("is_undecided"),
            models.F("is_given_up"),
            models.F("id"),
            name="message_by_address",
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("blacklisted_at"),
            models.F("id"),
            models.F("address"),
            condition=models.Q(("blacklisted_at__isnull", False)),
            name="message_blacklisted",
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("id"),
            condition=models.Q(("candidate", True), ("is_given_up", False), ("is_undecided", False)),
            name="message_candidates",
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("undecided_at"),
            models.F("id"),
            models.F("address"),
            condition=models.Q(("undecided_at__isnull", False)),
            name="message_waits_longest",
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("original_address"),
            models.F("is_undecided"),
            models.F("is_given_up"),
            models.F("id"),
            condition=models.Q(("original_address__isnull", False)),
            name="message_by_original",
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=django.contrib.postgres.indexes.BrinIndex(
            django.db.models.expressions.CombinedExpression(models.F("id"), "+", models.Value(0)),
            models.F("failed_at"),
            autosummarize=True,
            name="message_in_time",
            pages_per_range=32,
        ),
    ),
    migrations.AddIndex(
        model_name="message",
        index=models.Index(
            models.F("group"),
            models.F("is_undecided"),
            models.F("is_given_up"),
            models.F("id"),
            condition=models.Q(("group__isnull", False)),
            name="message_by_group",
        ),
    ),
    migrations.AddConstraint(
        model_name="message",
        constraint=models.CheckConstraint(
            condition=models.Q(("state__in", ["DLNG", "DLVD", "FAIL", "NDLV", "TBDL"])), name="message_state_known"
        ),
    ),
    migrations.AddConstraint(
        model_name="message",
        constraint=models.CheckConstraint(
            condition=models.Q(
                (
                    "reason__in",
                    [
                        "attempts_exhausted",
                        "blacklisted",
                        "conversation_ended",
                        "discarded_by_policy",
                        "expired",
                        "failed_by_admin",
                        "from_archive",
                        "handed_back",
                        "imported",
                        "listed",
                        "oversized",
                        "quarantined",
                        "rejected",
                        "returned",
                        "rule",
                    ],
                ),
                ("reason__isnull", True),
                _connector="OR",
            ),
            name="message_reason_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="message",
        constraint=models.CheckConstraint(
            condition=models.Q(models.Q(("state", "TBDL"), _negated=True), ("due_at__isnull", False), _connector="OR"),
            name="message_tbdl_has_due_at",
        ),
    ),
    migrations.AddConstraint(
        model_name="message",
        constraint=models.CheckConstraint(
            condition=models.Q(
                models.Q(("state", "DLNG"), _negated=True),
                models.Q(("claim_id__isnull", False), ("shard__isnull", False)),
                _connector="OR",
            ),
            name="message_dlng_has_claim",
        ),
    ),
    migrations.AddConstraint(
        model_name="message",
        constraint=models.CheckConstraint(
            condition=models.Q(
                models.Q(("state__in", ["NDLV", "FAIL"]), _negated=True), ("reason__isnull", False), _connector="OR"
            ),
            name="message_stop_has_reason",
        ),
    ),
    migrations.AddIndex(
        model_name="alertdelivery",
        index=models.Index(models.F("due_at"), condition=models.Q(("state", "waiting")), name="alert_delivery_due"),
    ),
    migrations.AddConstraint(
        model_name="alertdelivery",
        constraint=models.CheckConstraint(
            condition=models.Q(("state__in", ["dropped", "failed", "sent", "waiting"])),
            name="alertdelivery_state_known",
        ),
    ),
    migrations.AddIndex(
        model_name="operation",
        index=models.Index(models.F("id"), condition=models.Q(("ended_at__isnull", True)), name="operation_open"),
    ),
    migrations.AddIndex(
        model_name="operation",
        index=models.Index(
            condition=models.Q(("sign_off__isnull", True)),
            fields=["requester", "action", "requested_at"],
            name="operation_by_requester",
        ),
    ),
    migrations.AddIndex(
        model_name="operation",
        index=models.Index(
            models.F("id"), condition=models.Q(("broke_glass_at__isnull", False)), name="operation_broke_glass"
        ),
    ),
    migrations.AddConstraint(
        model_name="operation",
        constraint=models.CheckConstraint(
            condition=models.Q(
                (
                    "action__in",
                    [
                        "approve",
                        "assign",
                        "deliver_now",
                        "fail",
                        "patch",
                        "postpone",
                        "quarantine",
                        "redirect",
                        "release",
                        "restore",
                        "return",
                    ],
                )
            ),
            name="operation_action_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="operation",
        constraint=models.CheckConstraint(
            condition=models.Q(
                (
                    "state__in",
                    ["cancelled", "cancelling", "completed", "halted", "paused", "running", "waiting_for_sign_off"],
                )
            ),
            name="operation_state_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="operation",
        constraint=models.CheckConstraint(
            condition=models.Q(
                ("sign_off_decision__in", ["consent", "refuse"]), ("sign_off_decision__isnull", True), _connector="OR"
            ),
            name="operation_sign_off_decision_known",
        ),
    ),
    migrations.AddConstraint(
        model_name="operation",
        constraint=models.CheckConstraint(
            condition=models.Q(
                models.Q(("state", "waiting_for_sign_off"), _negated=True),
                ("sign_off_expires_at__isnull", False),
                _connector="OR",
            ),
            name="operation_sign_off_expires",
        ),
    ),
    migrations.AddIndex(
        model_name="brokerreceipt",
        index=models.Index(models.F("source"), models.F("digest"), name="broker_receipt_by_digest"),
    ),
    migrations.AddIndex(
        model_name="sourcefile",
        index=models.Index(
            models.F("source"),
            models.F("id"),
            condition=models.Q(("state__in", ["seen", "staged"])),
            name="source_file_seen",
        ),
    ),
    migrations.AddConstraint(
        model_name="sourcefile",
        constraint=models.UniqueConstraint(
            fields=("source", "path", "size_bytes", "modified_ns"), name="source_file_once"
        ),
    ),
    migrations.AddConstraint(
        model_name="sourcefile",
        constraint=models.CheckConstraint(
            condition=models.Q(("state__in", ["broken", "seen", "staged", "taken"])), name="sourcefile_state_known"
        ),
    ),
    migrations.AddConstraint(
        model_name="rejectedline",
        constraint=models.UniqueConstraint(fields=("batch", "line"), name="rejected_line_once"),
    ),
    migrations.RunSQL((_HERE / "beside_tables.sql").read_text(encoding="utf-8")),
]


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [TablesOrTakeover(_TABLES, (_HERE / "takeover.sql").read_text(encoding="utf-8"))]
