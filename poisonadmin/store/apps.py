"""The tables, their constraints and migrations; no use cases."""

from django.apps import AppConfig


class StoreConfig(AppConfig):
    name = "poisonadmin.store"
    label = "store"
