"""From how many messages on an operation needs the consent of another person."""

from django.db import models
from django.db.models.functions import Now

from poisonadmin.decisions.operations.domain.actions import OperationAction
from poisonadmin.store.models.choices import only_values_of


class SignOffRule(models.Model):
    """An operation on more than `above` messages at addresses that `match` needs a sign-off. `action` None: any."""

    id = models.BigAutoField(primary_key=True)
    match = models.CharField(max_length=255)
    action = models.CharField(max_length=16, null=True)
    above = models.IntegerField()
    version = models.IntegerField(db_default=1)
    updated_by = models.CharField(max_length=255)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "sign_off_rule"
        verbose_name = "sign-off rule"
        constraints = [
            only_values_of("action", OperationAction, nullable=True),
            models.UniqueConstraint(fields=["match", "action"], name="sign_off_rule_once", nulls_distinct=False),
        ]
