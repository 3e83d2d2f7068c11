"""Bodies of requests: serializers check what comes in, and only that; a field that is not known is refused."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from poisonadmin.core.queries.filter_values import InvalidFilter, moment, number
from poisonadmin.web.api.shape import ID

MAX_REASON_CHARS = 2000


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses fields that it does not have."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the checked fields."""
        if isinstance(data, Mapping) and (unknown := [str(name)[:100] for name in data if name not in self.fields]):
            raise serializers.ValidationError({name: ["There is no such field."] for name in unknown}, "unknown_field")
        return super().to_internal_value(data)


class Text(serializers.CharField):
    """A string; a number or a boolean is not taken for one."""

    def to_internal_value(self, data: Any) -> str:
        """Return the text."""
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


@extend_schema_field({"type": "string", "format": "date-time"})
class Moment(serializers.Field[Any, Any, Any, Any]):
    """A time with its offset from UTC."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the aware datetime."""
        try:
            return moment(self.field_name or "", data if isinstance(data, str) else "")
        except InvalidFilter as error:
            raise serializers.ValidationError(error.detail, error.code) from error


@extend_schema_field(ID)
class Identifier(serializers.Field[Any, Any, Any, Any]):
    """An id, written as a string of digits."""

    def to_internal_value(self, data: Any) -> int:
        """Return the number."""
        try:
            return number(self.field_name or "", data if isinstance(data, str) else "")
        except InvalidFilter as error:
            raise serializers.ValidationError(error.detail, error.code) from error


class JsonObject(serializers.DictField):
    """A JSON object whose members somebody else checks."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the object as it is."""
        if not isinstance(data, dict):
            self.fail("not_a_dict", input_type=type(data).__name__)
        return data


class ReasonInput(StrictSerializer):
    """Why; it is kept in the history and in the audit log."""

    reason = Text(max_length=MAX_REASON_CHARS)
