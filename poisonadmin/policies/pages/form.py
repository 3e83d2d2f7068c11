"""The form of a policy: an empty field inherits, so only what is filled in is set."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from poisonadmin.core.domain.addresses import MAX_ADDRESS_CHARS
from poisonadmin.core.domain.filter_values import MAX_ID
from poisonadmin.policies.commands import checked_policy
from poisonadmin.policies.domain.policy import BUILT_IN_PATTERN
from poisonadmin.policies.domain.settings import SECTIONS, SETTINGS
from poisonadmin.policies.queries import MAX_PREVIEW, PolicyView
from poisonadmin.web.pages.forms import StoredForm, TextField, whole_number
from poisonadmin.web.pages.policy_fields import SENTENCE, PolicyFields, typed_settings

PREVIEWED = 12


class PolicyForm(PolicyFields, StoredForm):
    """A policy, with all its settings."""

    object_type = "policy"
    key = "match"
    keeps = ()
    offered = tuple(SETTINGS)
    match = TextField("Pattern", most=MAX_ADDRESS_CHARS, needed=True, hint="orders.#")
    destination = TextField("Delivers to", choices=[("", "inherit")])

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        policy: PolicyView | None = None,
        destinations: Sequence[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(data, policy, **more)
        # What is named already may be out of scope, and stays.
        named = [policy.destination] if policy is not None and policy.destination else []
        self.fields["destination"].widget.choices += [(name, name) for name in sorted({*destinations, *named})]
        self.fields["match"].widget.attrs["readonly"] = policy is not None

    def initial_of(self, row: PolicyView) -> dict[str, Any]:
        """Return what the fields hold before anybody types."""
        return super().initial_of(row) | typed_settings(row.settings)

    def sets_more(self) -> bool:
        """Return whether anything is filled in that is not in the sentence."""
        return any(is_set for _, _, is_set in self.setting_sections())

    def setting_sections(self) -> list[tuple[str, list[forms.BoundField], bool]]:
        """Return the fields of the settings that are not in the sentence by section, and whether one is filled in."""
        found = []
        for title, section in SECTIONS.items():
            fields = [self.setting(name) for name in section if name not in SENTENCE]
            found.append((title, fields, any(field.value() not in (None, "") for field in fields)))
        return found

    def check(self) -> None:
        """Raise what the command would refuse but what is out of scope, which the command alone knows."""
        self.check_policy(self.spec().pattern)

    def check_policy(self, pattern: str) -> None:
        """Raise what the command would refuse at this pattern."""
        typed = self.spec()
        checked_policy(pattern, preset=typed.preset, settings=typed.settings)


class SimulatorForm(PolicyForm):
    """A policy that is tried out: what it inherits from, how many failures, and whose jitter."""

    match = TextField("Pattern that inherits", most=MAX_ADDRESS_CHARS, hint="empty: the built-in values")
    failures = whole_number("Failures to show", limits=(0, MAX_PREVIEW), initial=PREVIEWED)
    message_id = whole_number("Jitter of message", limits=(0, MAX_ID), hint="its number; empty: no jitter")

    def check(self) -> None:
        """Raise what the command would refuse; no pattern is needed."""
        self.check_policy(self.spec().pattern or BUILT_IN_PATTERN)
