"""An index over the words of failures' messages, for `error:` (messages/queries/error_search.py).

`searchable_words`: the first 4,000 characters of a text in lower case, each run of anything but letters and digits as
one blank, and a blank before and behind: so a phrase is found by its place in the text, and words begin at a blank.
Without punctuation the parser takes nothing for an address, a host or a tag.
"""

from django.db import migrations

_INDEX = """
CREATE FUNCTION searchable_words(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT ' ' || btrim(regexp_replace(lower(left($1, 4000)), '[^[:alnum:]]+', ' ', 'g')) || ' '
$$;
CREATE INDEX attempt_error_words ON attempt USING gin (to_tsvector('simple', searchable_words(error_message)))
WHERE outcome <> 'delivered' AND error_message IS NOT NULL;
"""
_NO_INDEX = "DROP INDEX attempt_error_words; DROP FUNCTION searchable_words(text);"


class Migration(migrations.Migration):
    dependencies = [("store", "0011_outcome_batches")]

    operations = [migrations.RunSQL(_INDEX, _NO_INDEX)]
