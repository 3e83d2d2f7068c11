import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


# History and former versions take no DELETE from the role that PoisonAdmin runs as. This takes away those of messages
# that are archived or erased, and live no more, and of no other. It returns what `archive_piece.rows` compares.
_FUNCTION = """
CREATE FUNCTION forget_kept_rows(which text, ids bigint[], OUT n bigint, OUT versions bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF which NOT IN ('history', 'payload_version')
       OR EXISTS (SELECT FROM public.message WHERE id = ANY(ids))
       OR cardinality(ids) <> (SELECT count(*) FROM (SELECT id FROM public.archived_message WHERE id = ANY(ids)
                               UNION SELECT id FROM public.erased_message WHERE id = ANY(ids)) AS known) THEN
        RAISE EXCEPTION 'Cannot delete rows of % for messages that are neither archived nor erased', which;
    END IF;
    EXECUTE format('WITH gone AS (DELETE FROM public.%I WHERE message_id = ANY($1) RETURNING xmin)
                    SELECT count(*), coalesce(sum(xmin::text::bigint), 0) FROM gone', which)
    INTO n, versions USING ids;
END $$;
REVOKE ALL ON FUNCTION forget_kept_rows(text, bigint[]) FROM PUBLIC;
"""
# What is archived leaves much room at once; it is to be found soon by what arrives.
_STORAGE = """
ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
"""
_TABLES = ("envelope", "body", "attempt", "history")


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0029_archive"),
    ]

    operations = [
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
            name="ArchivePiece",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.IntegerField()),
                ("after_id", models.BigIntegerField()),
                ("until_id", models.BigIntegerField()),
                ("state", models.CharField(db_default="planned", max_length=8)),
                (
                    "held_by",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, size=None
                    ),
                ),
                ("rows", models.JSONField(default=dict)),
            ],
            options={
                "db_table": "archive_piece",
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
            name="ErasedMessage",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("address_id", models.BigIntegerField()),
                ("erased_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "db_table": "erased_message",
            },
        ),
        migrations.CreateModel(
            name="Erasure",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("filter", models.JSONField(default=dict)),
                ("reason", models.TextField()),
                ("state", models.CharField(db_default="running", max_length=8)),
                ("totals", models.JSONField(default=dict)),
                ("error", models.TextField(null=True)),
                ("waits_until", models.DateTimeField(null=True)),
                ("requested_by", models.CharField(max_length=255)),
                ("requested_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "erasure",
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
        pgtrigger.migrations.RemoveTrigger(
            model_name="history",
            name="append_only",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="payloadversion",
            name="append_only",
        ),
        migrations.RemoveConstraint(
            model_name="archiverun",
            name="archiverun_state_known",
        ),
        migrations.RemoveConstraint(
            model_name="history",
            name="history_event_known",
        ),
        migrations.RemoveConstraint(
            model_name="job",
            name="job_kind_known",
        ),
        migrations.RemoveConstraint(
            model_name="message",
            name="message_reason_known",
        ),
        migrations.AddField(
            model_name="archivefile",
            name="rows_sha256",
            field=models.CharField(default="", max_length=64),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="archiverun",
            name="cut_off",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="archiverun",
            name="cutoffs",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="archiverun",
            name="is_cancelling",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name="archiverun",
            name="planned",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="archiverun",
            name="waits_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name="archiverun",
            name="state",
            field=models.CharField(db_default="running", max_length=12),
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
        pgtrigger.migrations.AddTrigger(
            model_name="payloadversion",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="24dc17f6301ee2996b08025adecaea4f1ac79666",
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
        migrations.AddConstraint(
            model_name="archiverun",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["cancelled", "done", "failed", "running"])),
                name="archiverun_state_known",
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
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        ["archive", "compare", "dry_run", "ingest", "redeliver", "regroup", "report", "search"],
                    )
                ),
                name="job_kind_known",
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
        migrations.AddIndex(
            model_name="archivedmessage",
            index=models.Index(fields=["message_id"], name="archived_by_message_id", opclasses=["varchar_pattern_ops"]),
        ),
        migrations.AddIndex(
            model_name="archivedmessage",
            index=models.Index(
                condition=models.Q(("conversation_id__isnull", False)),
                fields=["conversation_id"],
                name="archived_by_conversation",
                opclasses=["varchar_pattern_ops"],
            ),
        ),
        migrations.AddIndex(
            model_name="archivedmessage",
            index=models.Index(models.F("address_id"), models.F("id"), name="archived_by_address"),
        ),
        migrations.AddField(
            model_name="archivepiece",
            name="run",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="store.archiverun"),
        ),
        migrations.AddField(
            model_name="archivefile",
            name="piece",
            field=models.ForeignKey(default=0, on_delete=django.db.models.deletion.PROTECT, to="store.archivepiece"),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name="erasure",
            index=models.Index(models.F("id"), condition=models.Q(("ended_at__isnull", True)), name="erasure_open"),
        ),
        migrations.AddConstraint(
            model_name="erasure",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["done", "failed", "running"])), name="erasure_state_known"
            ),
        ),
        migrations.AddField(
            model_name="erasedmessage",
            name="erasure",
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, to="store.erasure"),
        ),
        migrations.AddIndex(
            model_name="legalhold",
            index=models.Index(
                models.F("id"), condition=models.Q(("lifted_at__isnull", True)), name="legal_hold_in_force"
            ),
        ),
        migrations.AddConstraint(
            model_name="archivepiece",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["archived", "empty", "planned", "written"])),
                name="archivepiece_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="archivepiece",
            constraint=models.UniqueConstraint(fields=("run", "number"), name="archive_piece_once"),
        ),
        migrations.RunSQL(_FUNCTION, "DROP FUNCTION forget_kept_rows(text, bigint[])"),
        *(
            migrations.RunSQL(
                _STORAGE.format(table=table),
                f"ALTER TABLE {table} RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay)",
            )
            for table in _TABLES
        ),
    ]
