"""Columns whose values are encrypted in the database, and decrypted in a row of a model."""

import os
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models

from poisonadmin.core.domain.encryption import decrypted, encrypted


class WithoutSecrets(models.Manager[Any]):
    """Reads rows without their secrets. Those are decrypted where they are used, and an unreadable one fails there."""

    def get_queryset(self) -> "models.QuerySet[Any]":
        """Return the rows."""
        return super().get_queryset().defer("secrets")


class SecretsField(models.JSONField):
    """Secrets by name; the names are for everybody to read."""

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Return the column's value."""
        stored = None if value is None else encrypted(value, os.environ)
        return super().get_db_prep_value(stored, connection, prepared)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the secrets; None where the column is of no row. Errors: `UnreadableSecret`."""
        stored = super().from_db_value(value, expression, connection)
        return None if stored is None else decrypted(stored, os.environ)

    def deconstruct(self) -> Any:
        """Return what migrations see of it: the column is one of JSON."""
        name, _, arguments, named = super().deconstruct()
        return name, "django.db.models.JSONField", arguments, named


class SecretListField(ArrayField):  # type: ignore[type-arg]
    """Secrets without names."""

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Return the column's value."""
        return super().get_db_prep_value(encrypted(value, os.environ), connection, prepared)

    def from_db_value(self, value: Any, *_: Any) -> Any:
        """Return the secrets; None where the column is of no row. Errors: `UnreadableSecret`."""
        return None if value is None else decrypted(value, os.environ)

    def deconstruct(self) -> Any:
        """Return what migrations see of it: the column is an array."""
        name, _, arguments, named = super().deconstruct()
        return name, "django.contrib.postgres.fields.ArrayField", arguments, named
