"""The tables, their constraints and migrations; no use cases."""

from importlib import import_module

from django.apps import AppConfig


class StoreConfig(AppConfig):
    name = "poisonadmin.store"
    label = "store"

    def ready(self) -> None:
        """Have Django know the check of the migrations."""
        import_module("poisonadmin.store.schema")
