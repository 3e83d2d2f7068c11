import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

# Former versions take no UPDATE from the role that PoisonAdmin runs as; the trigger says whose payloads may go.
_FUNCTION = """
CREATE FUNCTION empty_former_payloads(ids bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    UPDATE public.payload_version SET payload = '' WHERE message_id = ANY(ids) AND octet_length(payload) > 0
$$;
REVOKE ALL ON FUNCTION empty_former_payloads(bigint[]) FROM PUBLIC;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0035_regrouped_archive"),
    ]

    operations = [
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
        pgtrigger.migrations.RemoveTrigger(
            model_name="payloadversion",
            name="append_only",
        ),
        migrations.AddField(
            model_name="archiverun",
            name="archived_payloads",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="archiverun",
            name="live_payloads",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="archiverun",
            name="payloads_removed",
            field=models.BigIntegerField(db_default=0),
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
        migrations.RunSQL(_FUNCTION, "DROP FUNCTION empty_former_payloads(bigint[])"),
    ]
