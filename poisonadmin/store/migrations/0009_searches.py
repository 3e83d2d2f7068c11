"""Searches become runs of their kind, under the ids that they have; their hits stay."""

from django.db import migrations

# The job that a search had last becomes its run; a search without a job gets one.
_CARRY_OVER = """
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT job_id, id AS former_id, requested_by, requester AS account, patterns, error, requested_at, ended_at,
    CASE state WHEN 'completed' THEN 'succeeded' WHEN 'running' THEN 'queued' ELSE state END AS state,
    jsonb_build_object('filter', filter, 'reads_payloads', reads_payloads, 'newest', live_above) AS params,
    jsonb_build_object('live_above', live_above, 'file_above', file_above) AS position,
    jsonb_build_object('hits', hits, 'archived_hits', archived_hits, 'is_capped', is_capped,
        'outside_archive', outside_archive, 'first_hit_at', first_hit_at, 'selection', selection_id) AS result,
    CASE state WHEN 'completed' THEN total ELSE least(read, total) END AS done,
    CASE WHEN state = 'running' THEN nullif(total, 0) ELSE total END AS total,
    CASE WHEN state = 'running' THEN NULL ELSE expires_at END AS expires_at
FROM search;
UPDATE run SET former_id = c.former_id, state = c.state, params = c.params, position = c.position, result = c.result,
    account = c.account, patterns = c.patterns, done = c.done, total = c.total, error = c.error, phase = NULL,
    worker = NULL, requested_by = c.requested_by, created_at = c.requested_at, ended_at = c.ended_at,
    expires_at = c.expires_at
FROM carried AS c WHERE run.id = c.job_id;
-- Ids of new runs are not those of former searches.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM search)));
INSERT INTO run (kind, former_id, state, params, position, result, account, patterns, done, total, error, requested_by,
                 created_at, ended_at, expires_at)
SELECT 'search', former_id, state, params, position, result, account, patterns, done, total, error, requested_by,
       requested_at, ended_at, expires_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0008_alike"),
    ]

    operations = [
        migrations.RunSQL(_CARRY_OVER, migrations.RunSQL.noop),
        migrations.DeleteModel("Search"),
    ]
