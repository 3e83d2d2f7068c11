"""The form of a policy: an empty field inherits, so only what is filled in is set."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS, InvalidAddress
from poisonadmin.core.domain.durations import written
from poisonadmin.core.domain.errors import PoisonAdminError
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.core.domain.settings import InputKind, Setting
from poisonadmin.policies.commands import checked_policy
from poisonadmin.policies.domain.in_words import in_words
from poisonadmin.policies.domain.policy import BUILT_IN_PATTERN, PRESETS, UnknownPreset
from poisonadmin.policies.domain.resolution import PolicySpec
from poisonadmin.policies.domain.settings import SECTIONS, SETTINGS
from poisonadmin.policies.domain.warnings import warnings
from poisonadmin.policies.queries import MAX_PREVIEW, PolicyView
from poisonadmin.web.pages.forms import StoredForm, TextField, texts_by_comma, typed_duration, whole_number

PREVIEWED = 12
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


class PolicyForm(StoredForm):
    """A policy. The fields of its settings are named `setting.<name>`."""

    object_type = "policy"
    key = "match"
    keeps = ()
    match = TextField("Pattern", most=MAX_ADDRESS_CHARS, needed=True, hint="orders.#")
    preset = TextField("Preset", choices=[("", "none"), *((name, name) for name in PRESETS)])
    destination = TextField("Delivers to", choices=[("", "inherit")])

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        policy: PolicyView | None = None,
        destinations: Sequence[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(data, policy, **more)
        for name, setting in SETTINGS.items():
            self.fields[_SETTING + name] = _field(name, setting)
        # What is named already may be out of scope, and stays.
        named = [policy.destination] if policy is not None and policy.destination else []
        self.fields["destination"].widget.choices += [(name, name) for name in sorted({*destinations, *named})]
        self.fields["match"].widget.attrs["readonly"] = policy is not None

    def initial_of(self, row: PolicyView) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        settings = {name: _NULL if value is None else value for name, value in row.settings.items()}
        return super().initial_of(row) | {_SETTING + name: value for name, value in settings.items()}

    def sentence(self) -> dict[str, forms.BoundField]:
        """Return the fields of the sentence by their settings' names."""
        return {name: self[_SETTING + name] for name in SENTENCE}

    def presets(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return the presets, each with what it does and its warnings."""
        return [(name, in_words(policy), warnings(policy)) for name, policy in PRESETS.items()]

    def sets_more(self) -> bool:
        """Return whether anything is filled in that is not in the sentence."""
        return any(is_set for _, _, is_set in self.setting_sections())

    def setting_sections(self) -> list[tuple[str, list[forms.BoundField], bool]]:
        """Return the fields of the settings that are not in the sentence by section, and whether one is filled in."""
        found = []
        for title, section in SECTIONS.items():
            fields = [self[_SETTING + name] for name in section if name not in SENTENCE]
            found.append((title, fields, any(field.value() not in (None, "") for field in fields)))
        return found

    def values(self) -> dict[str, Any]:
        """Return what is filled in and could be read, or what is stored while nothing was sent."""
        return self.filled_in() if self.is_bound else dict(self.initial)

    def check(self) -> None:
        """Raise what the command would refuse but what is out of scope, which the command alone knows."""
        self.check_policy(self.spec().pattern)

    def check_policy(self, pattern: str) -> None:
        """Raise what the command would refuse at this pattern."""
        typed = self.spec()
        checked_policy(pattern, preset=typed.preset, settings=typed.settings)

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


class SimulatorForm(PolicyForm):
    """A policy that is tried out: what it inherits from, how many failures, and whose jitter."""

    match = TextField("Pattern that inherits", most=MAX_ADDRESS_CHARS, hint="empty: the built-in values")
    failures = whole_number("Failures to show", limits=(0, MAX_PREVIEW), initial=PREVIEWED)
    message_id = whole_number("Jitter of message", limits=(0, MAX_ID), hint="its number; empty: no jitter")

    def check(self) -> None:
        """Raise what the command would refuse; no pattern is needed."""
        self.check_policy(self.spec().pattern or BUILT_IN_PATTERN)


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
