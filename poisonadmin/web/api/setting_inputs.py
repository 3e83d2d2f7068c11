"""Bodies of requests that are made of declared settings (`core/domain/settings.py`)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers

from poisonadmin.core.domain.settings import REQUIRED, InputKind, Setting
from poisonadmin.web.api.contract import FilterField, StrictSerializer, Text


class SettingsInput(StrictSerializer):
    """Takes declared settings. A field that is an attribute of the class replaces the declared one."""

    settings: ClassVar[Mapping[str, Setting]] = {}

    def get_fields(self) -> dict[str, Any]:
        """Return the fields of the settings and those of the class."""
        declared = {name: one for name, one in self.settings.items() if one.input is not InputKind.OTHER}
        return {name: field_of(setting) for name, setting in declared.items()} | super().get_fields()


def field_of(setting: Setting) -> serializers.Field[Any, Any, Any, Any]:
    """Return the field of a setting."""
    how: dict[str, Any] = {}
    if setting.default is not REQUIRED:
        default = type(setting.default) if setting.default in ([], {}) else setting.default
        how = {"required": False, "default": default} | ({"allow_null": True} if default is None else {})
    how |= setting.api
    match setting.input:
        case InputKind.SWITCH:
            return serializers.BooleanField(**how)
        case InputKind.NUMBER:
            return serializers.IntegerField(**setting.bounds, **how)
        case InputKind.DECIMAL:
            return serializers.FloatField(**setting.bounds, **how)
        case InputKind.CHOICE:
            return serializers.ChoiceField(choices=[str(value) for value in setting.choices], **how)
        case InputKind.LINES:
            bounds: dict[str, Any] = {"min_length": setting.least, "max_length": setting.most}
            given = {name: bound for name, bound in bounds.items() if bound is not None}
            return serializers.ListField(child=Text(max_length=setting.each), **given, **how)
        case InputKind.PARAMETERS:
            return FilterField(**how)
        case InputKind.TEXT:
            return Text(**({"max_length": setting.most, "allow_blank": setting.default == ""} | how))
        case InputKind.OTHER:
            raise TypeError(f"{setting.name} is a field of its serializer.")
