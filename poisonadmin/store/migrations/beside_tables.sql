-- What Django cannot declare of the tables: functions, triggers, an index over words, and storage settings.

-- The words of an error, for `error:` (search/queries/error_search.py): its first 4,000 characters in lower case, each
-- run of anything but letters and digits as one blank, and a blank before and behind. A phrase is found by its place in
-- the text, and words begin at a blank. Without punctuation the parser sees no address, host or tag in them.
CREATE FUNCTION searchable_words(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT ' ' || btrim(regexp_replace(lower(left($1, 4000)), '[^[:alnum:]]+', ' ', 'g')) || ' '
$$;
CREATE INDEX failure_words_by_word ON failure_words USING gin (to_tsvector('simple', words));

-- Thousands of failures say the same: their words are stored once for all attempts of a statement that say the same. An
-- index over each attempt's own words doubled what it takes to write them.
CREATE FUNCTION note_failure_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO failure_words (words, message_ids, attempt_numbers)
    SELECT searchable_words(error_message), array_agg(message_id), array_agg(attempt_number)
    FROM written WHERE outcome <> 'delivered' AND error_message IS NOT NULL GROUP BY error_message;
    RETURN NULL;
END $$;
CREATE TRIGGER attempt_has_words AFTER INSERT ON attempt REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION note_failure_words();

-- An attempt whose words stay, such as one that is grouped anew, is not stored again.
CREATE FUNCTION note_other_failure_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO failure_words (words, message_ids, attempt_numbers)
    SELECT searchable_words(written.error_message), array_agg(message_id), array_agg(attempt_number)
    FROM written JOIN before USING (message_id, attempt_number)
    WHERE written.outcome <> 'delivered' AND written.error_message IS NOT NULL
      AND (before.outcome = 'delivered' OR written.error_message IS DISTINCT FROM before.error_message)
    GROUP BY written.error_message;
    RETURN NULL;
END $$;
CREATE TRIGGER attempt_has_other_words AFTER UPDATE ON attempt
REFERENCING OLD TABLE AS before NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION note_other_failure_words();

-- A statement that writes attempts of a claim leaves a batch for `settle`, so that no writer can forget it. The batch
-- says which attempts were delivered: settling reads no attempt of a delivered message.
CREATE FUNCTION note_outcomes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outcome_batch (claim_id, message_ids, delivered)
    SELECT claim_id, array_agg(message_id), array_agg(CASE WHEN outcome = 'delivered' THEN attempt_number END)
    FROM written WHERE claim_id IS NOT NULL GROUP BY claim_id;
    RETURN NULL;
END $$;
CREATE TRIGGER attempt_is_unsettled AFTER INSERT ON attempt REFERENCING NEW TABLE AS written
FOR EACH STATEMENT EXECUTE FUNCTION note_outcomes();

-- The database wakes who waits for work: what claims, and what delivers.
CREATE FUNCTION notify_listeners() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_ARGV[0], '');
    RETURN NULL;
END $$;
CREATE TRIGGER lane_is_new AFTER INSERT ON lane FOR EACH ROW
WHEN (NEW.is_open AND NEW.next_due IS NOT NULL) EXECUTE FUNCTION notify_listeners('poisonadmin_due');
CREATE TRIGGER lane_is_due_sooner AFTER UPDATE OF next_due, is_open ON lane FOR EACH ROW
WHEN (NEW.is_open AND NEW.next_due IS NOT NULL
      AND (NOT OLD.is_open OR OLD.next_due IS NULL OR NEW.next_due < OLD.next_due))
EXECUTE FUNCTION notify_listeners('poisonadmin_due');
CREATE TRIGGER node_has_ended AFTER UPDATE OF ended_at ON node FOR EACH ROW
WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION notify_listeners('poisonadmin_due');
CREATE TRIGGER claim_is_closed AFTER UPDATE OF is_open ON claim FOR EACH ROW
WHEN (OLD.is_open AND NOT NEW.is_open) EXECUTE FUNCTION notify_listeners('poisonadmin_due');
CREATE TRIGGER shard_waits AFTER INSERT ON claim_shard
FOR EACH STATEMENT EXECUTE FUNCTION notify_listeners('poisonadmin_shard');

-- History and former versions take no DELETE from the role that PoisonAdmin runs as. This removes those of messages that
-- are archived or erased, and live no more, and of no other. It returns what `archive_piece.rows` compares. The range of
-- the ids is named because the plan may otherwise be to read all that was ever archived.
CREATE FUNCTION forget_kept_rows(which text, ids bigint[], OUT n bigint, OUT versions bigint)
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
REVOKE ALL ON FUNCTION forget_kept_rows(text, bigint[]) FROM PUBLIC;

-- Former versions take no UPDATE from the role that PoisonAdmin runs as; a trigger says whose payloads may go.
CREATE FUNCTION empty_former_payloads(ids bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    UPDATE public.payload_version SET payload = '' WHERE message_id = ANY(ids) AND octet_length(payload) > 0
$$;
REVOKE ALL ON FUNCTION empty_former_payloads(bigint[]) FROM PUBLIC;

-- A fillfactor of 45 to 60 keeps a state change on its page; hot tables are vacuumed early.
ALTER TABLE message SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
                         autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE lane SET (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE counter SET (fillfactor = 50);
ALTER TABLE group_hour SET (fillfactor = 50);
ALTER TABLE group_version SET (fillfactor = 50);
ALTER TABLE run SET (fillfactor = 50);
ALTER TABLE node SET (fillfactor = 50);
ALTER TABLE operation SET (fillfactor = 50);
ALTER TABLE counter_delta SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
ALTER TABLE outcome_batch SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
-- Archived messages leave much room at once, which arriving ones are to find soon.
ALTER TABLE envelope SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE body SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE attempt SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE history SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);

-- A million ids are 8 MB; to compress them costs more than to read them.
ALTER TABLE claim_shard ALTER message_ids SET STORAGE EXTERNAL;
ALTER TABLE outcome_batch ALTER message_ids SET STORAGE EXTERNAL, ALTER delivered SET STORAGE EXTERNAL;
ALTER TABLE selection_piece ALTER message_ids SET STORAGE EXTERNAL;
