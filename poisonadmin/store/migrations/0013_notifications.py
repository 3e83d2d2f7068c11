"""The database wakes who waits for work: what claims, what delivers. A node's row says what its shard came to."""

from django.db import migrations, models

_TRIGGERS = """
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
"""
_NO_TRIGGERS = """
DROP TRIGGER lane_is_new ON lane;
DROP TRIGGER lane_is_due_sooner ON lane;
DROP TRIGGER node_has_ended ON node;
DROP TRIGGER claim_is_closed ON claim;
DROP TRIGGER shard_waits ON claim_shard;
DROP FUNCTION notify_listeners();
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0012_error_words")]

    operations = [
        migrations.AddField(model_name="node", name="tallies", field=models.JSONField(null=True)),
        migrations.RunSQL(_TRIGGERS, _NO_TRIGGERS),
    ]
