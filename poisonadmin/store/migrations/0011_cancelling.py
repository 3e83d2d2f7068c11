"""Operations whose cancellation is not over have a state of their own."""

from django.db import migrations, models

_STATES = ["cancelled", "cancelling", "completed", "halted", "paused", "running", "waiting_for_sign_off"]
_GOING_ON = "UPDATE operation SET state = 'cancelling' WHERE state = 'cancelled' AND ended_at IS NULL"


class Migration(migrations.Migration):
    dependencies = [("store", "0010_settings")]

    operations = [
        migrations.RemoveConstraint("operation", "operation_state_known"),
        migrations.RunSQL(_GOING_ON, migrations.RunSQL.noop),
        migrations.AddConstraint(
            "operation",
            models.CheckConstraint(condition=models.Q(("state__in", _STATES)), name="operation_state_known"),
        ),
    ]
