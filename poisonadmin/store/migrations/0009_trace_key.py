"""The trace of a message by its headers, with an index, for the messages that belong together."""

from django.db import migrations

# The forms are those of messages/domain/traces.py. Headers are stored as JSON in bytes: as escaped text they can be
# read whatever they hold. A name in a value does not match, since its quotes are escaped there. Regular expressions took
# ten times as long, which every message would pay when it is taken in.
_FUNCTION = r"""
CREATE FUNCTION trace_key(headers bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    known text := lower(encode(headers, 'escape'));
    form text;
    at integer;
    rest text;
    value text;
    id text;
BEGIN
    IF strpos(known, 'trace') = 0 AND strpos(known, '"b3"') = 0 THEN RETURN NULL; END IF;
    FOREACH form IN ARRAY ARRAY['traceparent', 'b3', 'x-b3-traceid', 'uber-trace-id'] LOOP
        at := strpos(known, '"' || form || '"');
        CONTINUE WHEN at = 0;
        rest := ltrim(substr(known, at + length(form) + 2, 120), E' :\t\r\n');
        CONTINUE WHEN left(rest, 1) <> '"';
        value := left(split_part(rest, '"', 2), 100);
        id := CASE form
            WHEN 'traceparent' THEN CASE WHEN strpos(value, '-') = 3 AND length(split_part(value, '-', 2)) = 32
                                              AND length(split_part(value, '-', 3)) = 16
                                         THEN split_part(value, '-', 2) END
            WHEN 'b3' THEN CASE WHEN strpos(value, '-') IN (17, 33) THEN split_part(value, '-', 1) END
            WHEN 'x-b3-traceid' THEN CASE WHEN length(value) IN (16, 32) THEN value END
            ELSE CASE WHEN strpos(replace(value, '%3a', ':'), ':') BETWEEN 2 AND 33
                      THEN split_part(replace(value, '%3a', ':'), ':', 1) END
        END;
        IF translate(id, '0123456789abcdef', '') = '' AND rtrim(id, '0') <> '' THEN
            RETURN lpad(id, 32, '0');
        END IF;
    END LOOP;
    RETURN NULL;
END $$
"""
_INDEX = "CREATE INDEX body_by_trace ON body (trace_key(headers))"


class Migration(migrations.Migration):
    dependencies = [("store", "0008_masking_rule")]
    operations = [
        migrations.RunSQL(_FUNCTION, "DROP FUNCTION trace_key(bytea)"),
        migrations.RunSQL(_INDEX, "DROP INDEX body_by_trace"),
    ]
