"""Roles, tokens and address patterns of accounts; and the audit log."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from poisonadmin.core.domain.access import Role
from poisonadmin.store.models.constraints import APPEND_ONLY, only_values_of


class Access(models.Model):
    """A user's role; `address_patterns` empty means every address."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="access")
    role = models.CharField(max_length=16)
    address_patterns = ArrayField(models.CharField(max_length=255), default=list)

    class Meta:
        db_table = "access"
        constraints = [only_values_of("role", Role)]


class ApiToken(models.Model):
    """`digest` is the SHA-256 of the token, hex.

    The token itself is shown once. `scopes`: roles' permissions, never more than the user's.
    """

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=32))
    address_patterns = ArrayField(models.CharField(max_length=255), default=list)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "api_token"


class IdempotencyKey(models.Model):
    """The answer once given to (account, key): the same request again gets it again, another one is refused.

    Kept a day. `actor` is the account: a token, or the user of a session. Without a status the request is still being
    carried out, and began its last transaction at `created_at`.
    """

    id = models.BigAutoField(primary_key=True)
    actor = models.CharField(max_length=255)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    status = models.SmallIntegerField(null=True)
    response = models.BinaryField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "idempotency_key"
        constraints = [models.UniqueConstraint(fields=["actor", "key"], name="idempotency_key_once")]


class Audit(models.Model):
    """One row a deliberate act (decision, configuration, login, export); append-only."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=255)
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=255)
    note = models.TextField(null=True)
    details = models.JSONField(default=dict)
    request_id = models.CharField(max_length=64, null=True)

    class Meta:
        db_table = "audit"
        indexes = [models.Index("object_type", "object_id", name="audit_by_object")]
        triggers = APPEND_ONLY


class PayloadRead(models.Model):
    """One payload that was shown or sent to somebody; a tick writes those of a minute into the audit log."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=255)
    object_type = models.CharField(max_length=16)
    object_id = models.BigIntegerField()

    class Meta:
        db_table = "payload_read"


class AuditSeal(models.Model):
    """Seals one row of the audit log, in the order of ids; append-only.

    `row_hash`: SHA-256 of the row, as system/queries/audit.py says. `chain_hash`: that of the seal before, the id
    and `row_hash`, so that a seal stands for all rows up to its own.
    """

    audit_id = models.BigIntegerField(primary_key=True)
    row_hash = models.BinaryField()
    chain_hash = models.BinaryField()
    sealed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "audit_seal"
        triggers = APPEND_ONLY
