-- Changes the tables that the 43 former migrations made (those of 723c9e82) into those of 0001_schema, with what they hold.

DELETE FROM django_migrations WHERE app = 'store';
-- What a statement has written is checked at once, so that the next one may change the table.
SET CONSTRAINTS ALL IMMEDIATE;

DROP TABLE alike_merge CASCADE;
ALTER TABLE node RENAME COLUMN pages TO journals;
ALTER TABLE job DROP CONSTRAINT job_kind_known;
ALTER TABLE job DROP CONSTRAINT job_state_known;
DROP INDEX IF EXISTS job_unfinished;
DROP INDEX IF EXISTS job_recent;
ALTER TABLE job RENAME TO run;
ALTER TABLE run DROP COLUMN runs CASCADE;
ALTER TABLE run DROP COLUMN max_runs CASCADE;
ALTER TABLE run RENAME COLUMN finished_at TO ended_at;
ALTER TABLE run RENAME COLUMN counts TO result;
ALTER TABLE run ALTER COLUMN result DROP NOT NULL;
ALTER TABLE run ADD COLUMN former_id bigint NULL;
ALTER TABLE run ADD COLUMN "position" jsonb NULL;
ALTER TABLE run ADD COLUMN account varchar(255) DEFAULT '' NOT NULL;
ALTER TABLE run ADD COLUMN patterns jsonb DEFAULT '[]'::jsonb NOT NULL;
ALTER TABLE run ALTER COLUMN patterns DROP DEFAULT;
ALTER TABLE run ADD COLUMN tries smallint DEFAULT 0 NOT NULL;
ALTER TABLE run ADD COLUMN expires_at timestamp with time zone NULL;
ALTER TABLE run ADD COLUMN resumes_at timestamp with time zone NULL;
ALTER TABLE run ADD COLUMN turn_at timestamp with time zone NULL;
ALTER SEQUENCE job_id_seq RENAME TO run_id_seq;
ALTER INDEX job_pkey RENAME TO run_pkey;
UPDATE run SET expires_at = ended_at + interval '2 days'
WHERE state = 'succeeded' AND (kind = 'redeliver' OR kind = 'ingest' AND params -> 'broker' IS NOT NULL);
-- Ids of new runs are not those of former comparisons.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM comparison)));
DROP TABLE IF EXISTS carried;
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT 'dry_run' AS kind, job_id, NULL::bigint AS former_id, requested_by, '' AS account, '[]'::jsonb AS patterns,
    CASE WHEN finished_at IS NULL THEN 'queued' WHEN error IS NULL THEN 'succeeded' ELSE 'failed' END AS state,
    jsonb_build_object('rule_id', rule_id, 'rule_version', rule_version, 'cut_off', cut_off) AS params,
    jsonb_build_object('after', coalesce(report -> 'after', '0')) AS position,
    jsonb_build_object('read', read, 'matched', matched, 'found', coalesce(report -> 'found', '[]')) AS result,
    read AS done, error, requested_at, finished_at, NULL::timestamptz AS expires_at
FROM dry_run
UNION ALL
SELECT 'compare', job_id, id, requested_by, account, patterns,
    CASE state WHEN 'done' THEN 'succeeded' WHEN 'running' THEN 'queued' ELSE state END,
    jsonb_build_object('selection_id', selection_id, 'with_payload', with_payload, 'address_ids', to_jsonb(address_ids),
                       'against', CASE WHEN is_against_delivered THEN NULL ELSE against END),
    '{}',
    CASE WHEN failing_count IS NULL THEN NULL ELSE jsonb_build_object(
        'against', against, 'failing_count', failing_count, 'others_count', others_count,
        'address_ids', to_jsonb(address_ids), 'failing', failing, 'others', others, 'fields', fields, 'tested', tested,
        'findings', findings) END,
    coalesce(failing + others, 0), error, requested_at, finished_at, expires_at
FROM comparison;
UPDATE run SET former_id = c.former_id, state = c.state, params = c.params, position = c.position, result = c.result,
    account = c.account, patterns = c.patterns, done = c.done, error = c.error, phase = NULL, worker = NULL,
    requested_by = c.requested_by, created_at = c.requested_at, ended_at = c.finished_at, expires_at = c.expires_at
FROM carried AS c WHERE run.id = c.job_id;
INSERT INTO run (kind, former_id, state, params, position, result, account, patterns, done, error, requested_by,
                 created_at, ended_at, expires_at)
SELECT kind, former_id, state, params, position, result, account, patterns, done, error, requested_by, requested_at,
       finished_at, expires_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
DROP TABLE dry_run CASCADE;
DROP TABLE comparison CASCADE;
CREATE INDEX run_open ON run (kind, id) WHERE state IN ('queued', 'running', 'cancelling');
CREATE INDEX run_recent ON run (kind, id DESC);
CREATE INDEX run_expiry ON run (expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE run ADD CONSTRAINT longrun_state_known CHECK (state IN ('cancelled', 'cancelling', 'failed', 'queued',
    'running', 'succeeded'));
ALTER TABLE alert_delivery DROP CONSTRAINT alert_delivery_rule_id_f2c9b1e5_fk_alert_rule_id;
ALTER TABLE alert_delivery ALTER COLUMN rule_id DROP NOT NULL;
ALTER TABLE alert_delivery ADD CONSTRAINT alert_delivery_rule_id_f2c9b1e5_fk_alert_rule_id FOREIGN KEY (rule_id)
    REFERENCES alert_rule (id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE alert_delivery ADD COLUMN saved_id bigint NULL CONSTRAINT
    alert_delivery_saved_id_2d1a9799_fk_saved_report_id REFERENCES saved_report(id) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO alert_delivery (saved_id, state, webhook_id, body, tries, planned_at, due_at, log, created_at)
SELECT saved_id, state, webhook_id, body, tries, created_at, due_at,
       CASE WHEN answer IS NULL THEN '[]'::jsonb
            ELSE jsonb_build_array(jsonb_build_object('at', due_at, 'is_taken', state = 'sent', 'text', answer)) END,
       created_at
FROM report_delivery ORDER BY id;
DROP TABLE report_delivery CASCADE;
CREATE INDEX alert_delivery_saved_id_2d1a9799 ON alert_delivery (saved_id);
DROP TABLE regrouped_archive CASCADE;
DROP TABLE regrouped_attempt CASCADE;
DROP TABLE regroup_move CASCADE;
UPDATE regrouping SET surveyed = 0, archive_surveyed = 0, read = 0, changed = 0, planned_at = NULL, dissolved = '{}'
WHERE finished_at IS NULL;
ALTER TABLE regrouping ADD COLUMN moved bigint DEFAULT 0 NOT NULL;
ALTER TABLE regrouping ADD COLUMN moved_until bigint DEFAULT 0 NOT NULL;
ALTER TABLE regrouping ADD COLUMN archive_moved bigint DEFAULT 0 NOT NULL;
CREATE TABLE regroup_move ("was" varchar(16) NOT NULL, fingerprint varchar(16) NOT NULL, is_archived boolean NOT NULL,
    n bigint NOT NULL, title varchar(300) NOT NULL, error_class varchar(255) NOT NULL, message_id bigint NOT NULL,
    attempt_number integer NOT NULL, finished_at timestamp with time zone NOT NULL, last_at timestamp with time zone
    NOT NULL, PRIMARY KEY ("was", fingerprint, is_archived));
CREATE TABLE fingerprint_alias (id bigint NOT NULL PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, former varchar(16)
    NOT NULL, message_id bigint NULL, attempt_number integer NULL, fingerprint varchar(16) NOT NULL);
ALTER TABLE fingerprint_alias ADD CONSTRAINT fingerprint_alias_once UNIQUE NULLS NOT DISTINCT (former, message_id,
    attempt_number);
CREATE INDEX fingerprint_alias_of_message ON fingerprint_alias (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX fingerprint_alias_of_all ON fingerprint_alias (former) WHERE message_id IS NULL;
ALTER TABLE source RENAME COLUMN next_look_at TO next_check_at;
ALTER TABLE source RENAME COLUMN looked_at TO checked_at;
ALTER TABLE broker_look DROP CONSTRAINT brokerlook_purpose_known;
ALTER TABLE broker_look RENAME TO broker_check;
ALTER INDEX broker_look_waiting RENAME TO broker_check_waiting;
ALTER TABLE broker_check ADD CONSTRAINT brokercheck_purpose_known CHECK (purpose IN ('connection', 'preview', 'queues'));
DROP TABLE IF EXISTS carried;
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT id AS former_id, job_id, requested_by, requested_at, finished_at, error, coalesce(groups, 0) AS done,
    CASE state WHEN 'done' THEN 'succeeded' WHEN 'running' THEN 'queued' ELSE state END AS state,
    CASE WHEN groups IS NULL THEN NULL ELSE jsonb_build_object(
        'groups', groups, 'left_out', left_out, 'proposals', proposals, 'groups_digest', groups_digest) END AS result
FROM alike_search;
-- Ids of new runs are not those of former searches.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM alike_search)));
UPDATE run SET former_id = c.former_id, state = c.state, params = '{}', position = '{}', result = c.result,
    done = c.done, error = c.error, phase = NULL, worker = NULL, requested_by = c.requested_by,
    created_at = c.requested_at, ended_at = c.finished_at, expires_at = NULL
FROM carried AS c WHERE run.id = c.job_id;
INSERT INTO run (kind, former_id, state, params, position, result, patterns, done, error, requested_by, created_at,
                 ended_at)
SELECT 'alike_groups', former_id, state, '{}', '{}', result, '[]', done, error, requested_by, requested_at, finished_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
DROP TABLE carried;
DROP TABLE alike_search CASCADE;
DROP TABLE IF EXISTS carried;
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
DROP TABLE search CASCADE;
ALTER TABLE restart_job DROP CONSTRAINT restartjob_ordering_known;
ALTER TABLE restart_job RENAME COLUMN most TO "limit";
ALTER TABLE restart_job RENAME COLUMN ordering TO "order";
ALTER TABLE restart_job RENAME COLUMN has_canary TO canary;
ALTER TABLE alert_rule RENAME COLUMN send_to TO "to";
ALTER TABLE saved_report RENAME COLUMN send_to TO "to";
ALTER TABLE restart_job ADD CONSTRAINT restartjob_order_known CHECK ("order" IN ('newest', 'newest_failure', 'oldest',
    'oldest_failure', 'random'));
ALTER TABLE operation DROP CONSTRAINT operation_state_known;
UPDATE operation SET state = 'cancelling' WHERE state = 'cancelled' AND ended_at IS NULL;
ALTER TABLE operation ADD CONSTRAINT operation_state_known CHECK (state IN ('cancelled', 'cancelling', 'completed',
    'halted', 'paused', 'running', 'waiting_for_sign_off'));
ALTER TABLE run ADD COLUMN secrets jsonb NULL;
-- Ids of new runs are not those of former checks.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM broker_check)));
INSERT INTO run (kind, former_id, state, params, secrets, position, result, patterns, error, requested_by, account,
                 created_at, started_at, ended_at, expires_at)
SELECT 'broker_check', id,
    CASE WHEN taken_at IS NULL THEN 'queued' WHEN answered_at IS NULL OR error IS NOT NULL THEN 'failed'
         ELSE 'succeeded' END,
    jsonb_build_object('purpose', purpose, 'kind', kind, 'config', config, 'source_id', source_id),
    CASE WHEN taken_at IS NULL THEN nullif(secrets, '{}') END, '{}', answer, '[]',
    CASE WHEN taken_at IS NOT NULL AND answered_at IS NULL THEN 'It ended its worker.' ELSE error END,
    asked_by, asked_by, asked_at, taken_at, coalesce(answered_at, taken_at), asked_at + interval '15 minutes'
FROM broker_check ORDER BY id;
DROP TABLE broker_check CASCADE;
DROP TABLE IF EXISTS carried;
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT job_id, id AS former_id, requested_by, account, patterns, error, requested_at, ended_at, place AS position,
    CASE WHEN state IN ('ready', 'expired') THEN CASE WHEN error IS NULL THEN 'succeeded' ELSE 'failed' END
         WHEN state = 'running' THEN 'queued' ELSE state END AS state,
    jsonb_build_object('asked', asked, 'saved_id', saved_id, 'shows_payload', shows_payload, 'cut_off', cut_off)
        AS params,
    CASE WHEN state IN ('ready', 'expired') AND error IS NULL THEN jsonb_build_object(
        'rows', rows, 'bytes', bytes, 'sha256', sha256, 'file_until', expires_at) END AS result,
    CASE WHEN state IN ('ready', 'expired') THEN total ELSE least(done, total) END AS done,
    nullif(total, 0) AS total,
    CASE WHEN state NOT IN ('queued', 'running') THEN coalesce(ended_at, requested_at) + interval '90 days' END
        AS expires_at
FROM report;
UPDATE run SET former_id = c.former_id, state = c.state, params = c.params, position = c.position, result = c.result,
    account = c.account, patterns = c.patterns, done = c.done, total = c.total, error = c.error, phase = NULL,
    worker = NULL, requested_by = c.requested_by, created_at = c.requested_at, ended_at = c.ended_at,
    expires_at = c.expires_at
FROM carried AS c WHERE run.id = c.job_id;
-- Ids of new runs are not those of former reports.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(id) + 1 FROM report)));
INSERT INTO run (kind, former_id, state, params, position, result, account, patterns, done, total, error, requested_by,
                 created_at, ended_at, expires_at)
SELECT 'report', former_id, state, params, position, result, account, patterns, done, total, error, requested_by,
       requested_at, ended_at, expires_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
DROP TABLE report CASCADE;
DROP TABLE IF EXISTS carried;
CREATE TEMPORARY TABLE carried ON COMMIT DROP AS
SELECT 'regroup' AS kind, job_id, id AS former_id, requested_by,
    CASE WHEN finished_at IS NULL THEN 'queued' ELSE 'succeeded' END AS state,
    jsonb_build_object('cut_off', cut_off) AS params,
    jsonb_build_object('surveyed', surveyed, 'archive_surveyed', archive_surveyed, 'moved_until', moved_until,
        'archive_moved', archive_moved, 'is_decided', planned_at IS NOT NULL) AS position,
    jsonb_build_object('read', read, 'changed', changed) || CASE WHEN planned_at IS NULL OR finished_at IS NOT NULL
        THEN '{}' ELSE jsonb_build_object('dissolved', dissolved, 'former', former) END AS result,
    CASE WHEN finished_at IS NOT NULL THEN changed WHEN planned_at IS NULL THEN read ELSE moved END AS done,
    CASE WHEN planned_at IS NOT NULL THEN changed END AS total,
    NULL::text AS error, requested_at, waits_until AS resumes_at, finished_at AS ended_at
FROM regrouping
UNION ALL
SELECT 'archive', job_id, id, requested_by,
    CASE WHEN state = 'running' AND is_cancelling THEN 'cancelling' WHEN state = 'running' THEN 'queued'
         WHEN state = 'done' THEN 'succeeded' ELSE state END,
    jsonb_build_object('as_of', as_of, 'is_dry_run', is_dry_run, 'cut_off', cut_off, 'cutoffs', cutoffs),
    jsonb_build_object('planned', planned, 'live_payloads', live_payloads, 'archived_payloads', archived_payloads),
    CASE WHEN is_dry_run THEN jsonb_build_object(
        'messages', (SELECT coalesce(sum(state.value::bigint), 0)
                     FROM jsonb_each(coalesce(totals -> 'addresses', '{}')) AS address,
                          jsonb_each_text(address.value) AS state),
        'payloads', (SELECT coalesce(sum(value::bigint), 0)
                     FROM jsonb_each_text(coalesce(totals -> 'payloads', '{}'))),
        'messages_at', coalesce(totals -> 'addresses', '{}'), 'payloads_at', coalesce(totals -> 'payloads', '{}'))
    ELSE jsonb_build_object('messages', totals -> 'messages' -> 'rows', 'payloads', payloads_removed) END,
    CASE WHEN state = 'done' THEN cut_off ELSE planned END, cut_off,
    error, requested_at, waits_until, ended_at
FROM archive_run
UNION ALL
SELECT 'erase', job_id, id, requested_by,
    CASE state WHEN 'running' THEN 'queued' WHEN 'done' THEN 'succeeded' ELSE state END,
    jsonb_build_object('filter', filter, 'reason', reason), '{}',
    CASE WHEN state = 'done' THEN '{"held_by": []}' || totals END,
    (SELECT count(*) FROM erased_message WHERE erasure_id = erasure.id), NULL,
    error, requested_at, waits_until, ended_at
FROM erasure;
UPDATE run SET former_id = c.former_id, state = c.state, params = c.params, position = c.position, result = c.result,
    done = c.done, total = c.total, error = c.error, phase = NULL, worker = NULL, requested_by = c.requested_by,
    created_at = c.requested_at, resumes_at = c.resumes_at, ended_at = c.ended_at, expires_at = NULL
FROM carried AS c WHERE run.id = c.job_id;
-- Ids of new runs are not those of former ones of these kinds.
SELECT setval('run_id_seq', greatest(nextval('run_id_seq'), (SELECT max(former_id) + 1 FROM carried)));
INSERT INTO run (kind, former_id, state, params, position, result, patterns, done, total, error, requested_by,
                 created_at, resumes_at, ended_at)
SELECT kind, former_id, state, params, position, result, '[]', done, total, error, requested_by, requested_at,
       resumes_at, ended_at
FROM carried AS c WHERE NOT EXISTS (SELECT FROM run WHERE run.id = c.job_id) ORDER BY requested_at;
DROP TABLE carried;
ALTER TABLE archive_piece DROP CONSTRAINT archive_piece_once;
ALTER TABLE archive_piece DROP CONSTRAINT archive_piece_run_id_bbe19a6f_fk_archive_run_id;
ALTER TABLE archive_piece ADD CONSTRAINT archive_piece_once UNIQUE (run_id, number);
ALTER TABLE archive_file DROP CONSTRAINT archive_file_run_id_5494a816_fk_archive_run_id;
ALTER TABLE erased_message DROP CONSTRAINT erased_message_erasure_id_b0241194_fk_erasure_id;
DROP TABLE regrouping CASCADE;
DROP TABLE archive_run CASCADE;
DROP TABLE erasure CASCADE;
ALTER TABLE attempt RENAME COLUMN ruling TO rule_action;
CREATE TABLE annotation (id bigint NOT NULL PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, message_id bigint NULL,
    group_id bigint NULL, owner_id integer NULL, tags varchar(50)[] NOT NULL, note text DEFAULT '' NOT NULL,
    ticket_url text NULL, snoozed_until timestamp with time zone NULL, revision integer DEFAULT 0 NOT NULL,
    CONSTRAINT annotation_of_one_subject CHECK (((group_id IS NULL AND message_id IS NOT NULL) OR (group_id IS NOT NULL
    AND message_id IS NULL))));
INSERT INTO annotation (message_id, owner_id, tags)
SELECT message_id, owner_id, coalesce(tags, '{}') FROM message_owner FULL JOIN message_tag USING (message_id);
INSERT INTO annotation (group_id, owner_id, tags, note, ticket_url, snoozed_until, revision)
SELECT group_id, owner_id, tags, note, ticket_url, snoozed_until, revision FROM group_annotation WHERE revision > 0;
CREATE INDEX annotation_by_owner ON annotation (owner_id, message_id) WHERE owner_id IS NOT NULL;
CREATE INDEX annotation_by_tag ON annotation USING gin (tags);
CREATE UNIQUE INDEX annotation_of_message ON annotation (message_id) WHERE message_id IS NOT NULL;
CREATE UNIQUE INDEX annotation_of_group ON annotation (group_id) WHERE group_id IS NOT NULL;
DROP TABLE message_owner CASCADE;
DROP TABLE message_tag CASCADE;
DROP TABLE group_annotation CASCADE;
