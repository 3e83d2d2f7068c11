"""The fields of a policy's settings: presets as cards, and a sentence to fill in. An empty field inherits."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms

from poisonadmin.core.domain.addresses import InvalidAddress
from poisonadmin.core.domain.durations import written
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.settings import InputKind, Setting
from poisonadmin.policies.domain.in_words import in_words
from poisonadmin.policies.domain.policy import PRESETS, UnknownPreset
from poisonadmin.policies.domain.resolution import PolicySpec
from poisonadmin.policies.domain.settings import SETTINGS
from poisonadmin.policies.domain.warnings import warnings
from poisonadmin.web.pages.forms import PageForm, TextField, texts_by_comma, typed_duration

_SETTING = "setting."
# The settings of the sentence, which most policies consist of.
SENTENCE = (
    "max_delivery_attempts",
    "redelivery_delay",
    "redelivery_delay_multiplier",
    "max_redelivery_delay",
    "redelivery_collision_avoidance_factor",
    "on_exhausted",
)
# What is typed, and shown, for null; an empty field inherits.
_NULL = "none"
_YES_NO = [("", "inherit"), ("true", "yes"), ("false", "no")]
_FIELDS: dict[type[PoisonAdminError], str] = {
    InvalidAddress: "match",
    UnknownPreset: "preset",
}


class PolicyFields(PageForm):
    """A form with a preset and settings of a policy, each in a field named `setting.<name>`; `offered`: which."""

    offered: ClassVar[tuple[str, ...]] = SENTENCE
    preset = TextField("Preset", choices=[("", "none"), *((name, name) for name in PRESETS)])

    def more_fields(self) -> dict[str, forms.Field]:
        """Return the fields of the settings."""
        return super().more_fields() | {_SETTING + name: _field(name, SETTINGS[name]) for name in self.offered}

    def setting(self, name: str) -> forms.BoundField:
        """Return the field of a setting."""
        return self[_SETTING + name]

    def sentence(self) -> dict[str, forms.BoundField]:
        """Return the fields of the sentence by their settings' names."""
        return {name: self.setting(name) for name in SENTENCE}

    def presets(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return the presets, each with what it does and its warnings."""
        return [(name, in_words(policy), warnings(policy)) for name, policy in PRESETS.items()]

    def values(self) -> dict[str, Any]:
        """Return what is filled in and could be read, or what is stored while nothing was sent."""
        return self.filled_in() if self.is_bound else dict(self.initial)

    def spec(self) -> PolicySpec:
        """Return the policy that is filled in."""
        values = self.values()
        settings = {
            name.removeprefix(_SETTING): None if value == _NULL else value
            for name, value in values.items()
            if name.startswith(_SETTING)
        }
        return PolicySpec(values.get("match", ""), values.get("preset"), settings, values.get("destination"))

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error."""
        name = _FIELDS.get(type(error)) or super().field_of(error)
        return name if name in self.fields else _SETTING + name


def typed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the fields hold of a policy's settings before anybody types."""
    return {_SETTING + name: _NULL if value is None else value for name, value in settings.items()}


def _field(name: str, setting: Setting) -> TextField:
    shown: dict[str, Any] = {"hint": f"inherit; {_NULL}: {setting.hint}" if setting.hint else "inherit"}
    if name in SENTENCE:
        shown = {"hint": "inherit", "aria-label": name.replace("_", " ")}
    match setting.input:
        case InputKind.DURATION:
            return TextField(name, read=_duration, write=written, **shown)
        case InputKind.SWITCH:
            return TextField(name, read="true".__eq__, write=lambda value: str(value).lower(), choices=_YES_NO)
        case InputKind.CHOICE:
            return TextField(name, choices=[("", "inherit"), *setting.choices.items()], **shown | {"hint": None})
        case InputKind.LINES:
            return texts_by_comma(name, hint="inherit; separate with commas")
        case InputKind.NUMBER | InputKind.DECIMAL:
            number = str if setting.input is InputKind.NUMBER else "{:g}".format
            write = _percent if name == "redelivery_collision_avoidance_factor" else number
            return TextField(name, read=_number, write=write, **shown)
        case _:
            return TextField(name, hint="inherit")


def _duration(text: str) -> int | str:
    return text if text == _NULL else typed_duration(text)


def _percent(part: float) -> str:
    return f"{part * 100:g} %"


def _number(text: str) -> float | str:
    if text == _NULL:
        return text
    if text.endswith("%"):
        return float(_number(text[:-1].strip())) / 100
    try:
        return int(text) if len(text) < 20 else float(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise forms.ValidationError(f"{text[:40]!r} is not a number.") from None
