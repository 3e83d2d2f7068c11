"""The form of a policy: an empty field inherits, so only what is filled in is set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from poisonadmin.policies.domain.settings import InvalidSetting
from poisonadmin.policies.queries.policies import PolicyView
from poisonadmin.policies.queries.values import IN_MILLISECONDS, SECTIONS, choices, kinds


@dataclass(frozen=True)
class Field:
    """One setting as the form offers it."""

    name: str
    kind: str
    text: str
    choices: list[str]
    unit: str


@dataclass(frozen=True)
class FormSection:
    """Settings that belong together; `opened` when one of them is set."""

    title: str
    fields: list[Field]
    opened: bool


@dataclass(frozen=True)
class PolicyForm:
    """The form as typed; `texts` holds the settings that are not left empty. `version` None: a new policy."""

    match: str = ""
    preset: str | None = None
    destination: str | None = None
    version: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """Return the settings as values; raise InvalidSetting naming the field that is none."""
        of_kind = kinds()
        return {name: _value(name, of_kind[name], text) for name, text in self.texts.items()}

    def sections(self) -> list[FormSection]:
        """Return the fields by section."""
        of_kind = kinds()
        found = []
        for section in SECTIONS:
            fields = [
                Field(
                    name,
                    of_kind[name],
                    self.texts.get(name, ""),
                    choices(name),
                    "ms" if name in IN_MILLISECONDS else "",
                )
                for name in section.names
            ]
            found.append(FormSection(section.title, fields, any(name in self.texts for name in section.names)))
        return found


def empty_form() -> PolicyForm:
    """Return the form of a new policy."""
    return PolicyForm()


def form_of(policy: PolicyView) -> PolicyForm:
    """Return the form of a policy as it stands."""
    texts = {name: _text(value) for name, value in policy.settings.items()}
    return PolicyForm(policy.match, policy.preset, policy.destination, policy.version, texts)


def read_form(posted: Mapping[str, Any]) -> PolicyForm:
    """Return the form as it was sent."""
    texts = {name: text for name in kinds() if (text := _clean(posted.get(f"setting.{name}")))}
    version = _clean(posted.get("version"))
    return PolicyForm(
        _clean(posted.get("match")),
        _clean(posted.get("preset")) or None,
        _clean(posted.get("destination")) or None,
        int(version) if version.isascii() and version.isdigit() and len(version) < 10 else None,
        texts,
    )


def _clean(text: object) -> str:
    return str(text or "").replace("\x00", "").strip()


def _value(name: str, kind: str, text: str) -> Any:
    if kind == "flag":
        return text == "true"
    if kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind != "number":
        return text
    try:
        return int(text) if len(text) < 20 else float(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise InvalidSetting(name, f"{text[:40]!r} is not a number.") from None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)
