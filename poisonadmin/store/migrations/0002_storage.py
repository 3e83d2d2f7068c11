"""Storage settings that Django cannot say: room for updates in place, eager vacuum of the hot tables.

Sources: PERFORMANCE, "What limits what" (fillfactor 45-60 keeps a state change on its page).
"""

from django.db import migrations

_SET = """
ALTER TABLE message SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
                         autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE lane SET (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE node SET (fillfactor = 50);
ALTER TABLE job SET (fillfactor = 50);
ALTER TABLE counter SET (fillfactor = 50);
ALTER TABLE counter_delta SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
"""
_RESET = """
ALTER TABLE message RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay,
                           autovacuum_analyze_scale_factor);
ALTER TABLE lane RESET (fillfactor, autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
ALTER TABLE node RESET (fillfactor);
ALTER TABLE job RESET (fillfactor);
ALTER TABLE counter RESET (fillfactor);
ALTER TABLE counter_delta RESET (autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor);
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0001_initial")]
    operations = [migrations.RunSQL(_SET, _RESET)]
