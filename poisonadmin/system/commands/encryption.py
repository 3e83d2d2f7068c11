"""Stored secrets are encrypted anew, with the first of the keys; so a key can be replaced, or encryption be begun."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import models, transaction

from poisonadmin.core.commands import audit
from poisonadmin.core.domain.encryption import UnreadableSecret
from poisonadmin.store.models.secret_fields import SecretListField, SecretsField


def unreadable() -> Iterator[str]:
    """Yield the kind and the name of each row whose secrets no key decrypts."""
    for secrets in _columns():
        rows = secrets.model._default_manager.order_by("id")  # noqa: SLF001  (Django documents it)
        for row_id, name in rows.values_list("id", "name"):
            try:
                rows.values_list("secrets", flat=True).filter(id=row_id).first()
            except UnreadableSecret:
                yield f"{secrets.model._meta.verbose_name} {name}"  # noqa: SLF001


def encrypt_anew(*, actor: str, is_forgetting: bool = False) -> tuple[int, list[str]]:
    """Encrypt every stored secret with the first key; return how many rows, and the names of those no key decrypts.

    `is_forgetting`: the secrets of these are removed. Without keys all are stored as they are. Errors:
    `UnusableSecret`.
    """
    changed, lost = 0, []
    for secrets in _columns():
        table, kind = secrets.model, secrets.model._meta.verbose_name  # noqa: SLF001
        for row_id, name in table._default_manager.order_by("id").values_list("id", "name"):  # noqa: SLF001
            row = table._default_manager.filter(id=row_id)  # noqa: SLF001
            with transaction.atomic():
                try:
                    if found := row.select_for_update().values_list("secrets", flat=True).first():
                        changed += row.update(secrets=found)
                except UnreadableSecret:
                    lost.append(f"{kind} {name}")
                    if is_forgetting:
                        row.update(secrets=secrets.get_default())
                        audit.record(actor, "secrets.forgotten", str(kind), name)
    return changed, lost


def _columns() -> "Iterator[models.Field[Any, Any]]":
    for table in apps.get_models():
        for field in table._meta.concrete_fields:  # noqa: SLF001
            # A run forgets what came with its request within minutes.
            if isinstance(field, SecretsField | SecretListField) and not field.null:
                yield field
