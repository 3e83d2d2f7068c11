from django.db import migrations

# As before, and with the range that the ids lie in: without, the plan may be to read all that was ever archived.
_FUNCTION = """
CREATE OR REPLACE FUNCTION forget_kept_rows(which text, ids bigint[], OUT n bigint, OUT versions bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    lowest bigint;
    highest bigint;
BEGIN
    SELECT min(id), max(id) INTO lowest, highest FROM unnest(ids) AS id;
    IF which NOT IN ('history', 'payload_version')
       OR EXISTS (SELECT FROM public.message WHERE id BETWEEN lowest AND highest AND id = ANY(ids))
       OR cardinality(ids) <> (SELECT count(*) FROM (
              SELECT id FROM public.archived_message WHERE id BETWEEN lowest AND highest AND id = ANY(ids)
              UNION SELECT id FROM public.erased_message WHERE id BETWEEN lowest AND highest AND id = ANY(ids)
          ) AS known) THEN
        RAISE EXCEPTION 'Cannot delete rows of % for messages that are neither archived nor erased', which;
    END IF;
    EXECUTE format('WITH gone AS (
                        DELETE FROM public.%I WHERE message_id BETWEEN $2 AND $3 AND message_id = ANY($1) RETURNING xmin
                    ) SELECT count(*), coalesce(sum(xmin::text::bigint), 0) FROM gone', which)
    INTO n, versions USING ids, lowest, highest;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0041_payload_selections"),
    ]

    operations = [
        migrations.RunSQL(_FUNCTION, migrations.RunSQL.noop),
    ]
