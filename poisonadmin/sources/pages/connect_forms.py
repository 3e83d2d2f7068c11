"""The forms of the guided way to connect; each answers one step, and what it checks the commands check again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

from django import forms

from poisonadmin.brokers.domain.broker_kinds import BROKERS, source_settings
from poisonadmin.brokers.domain.broker_urls import InvalidBrokerUrl
from poisonadmin.core.domain.addresses import ANY_WORDS, validate_pattern
from poisonadmin.core.domain.durations import written
from poisonadmin.core.domain.errors import AlreadyExists, InvalidField, PoisonAdminError, all_checked
from poisonadmin.destinations.commands import checked_destination
from poisonadmin.destinations.domain.destination import DestinationSettings
from poisonadmin.policies.commands import checked_policy
from poisonadmin.policies.domain.resolution import PolicyIndex, PolicySpec
from poisonadmin.policies.domain.settings import InvalidSetting
from poisonadmin.policies.queries import find_policy
from poisonadmin.sources.commands.setup import checked_config, checked_source, name_for, require_free
from poisonadmin.sources.pages.sources import DirectoryForm
from poisonadmin.store.models.destination import DestinationKind
from poisonadmin.store.models.intake import SourceKind
from poisonadmin.web.pages.forms import PageForm, SecretLines, TextField, headers_by_line, lines_of
from poisonadmin.web.pages.policy_fields import PolicyFields
from poisonadmin.web.pages.setting_fields import BrokerForm, ConfiguredForm

PROGRAMS = "programs"


@dataclass(frozen=True)
class Origin:
    """The place that messages come from, as it was typed: what a source has before it is made."""

    name: str
    kind: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str]
    version: int = 1

    @property
    def secret_names(self) -> list[str]:
        """The names of what is never shown again."""
        return sorted(self.secrets)

    def config_with(self, queues: Sequence[str]) -> dict[str, Any]:
        """Return the configuration of the source, which drains these queues where it is a broker."""
        return {**self.config, BROKERS[self.kind].drained: list(queues)} if self.kind in BROKERS else {**self.config}


class PlaceForm(ConfiguredForm):
    """The first step. Source and destination get its name."""

    keeps: ClassVar[tuple[str, ...]] = ()
    object_type = "source"

    def arguments(self) -> dict[str, Any]:
        """Return what is kept: a name too, and the login that was typed before and still fits."""
        typed = super().arguments()
        kept = self.row.secrets if self.keeps_secrets() else {}
        return typed | {"name": typed["name"] or self._host(), "secrets": typed["secrets"] or kept}

    def _host(self) -> str:
        try:
            return name_for(self.cleaned_data["kind"], self.cleaned_data["url"])
        except (KeyError, InvalidBrokerUrl):
            return "broker"  # the check of the URL says what is wrong

    def check(self) -> None:
        """Raise what the commands would refuse."""
        super().check()
        if self.only_kind or "kind" in self.cleaned_data:
            require_free(self.arguments()["name"])


class BrokerPlaceForm(PlaceForm, BrokerForm):
    """A broker, with all settings of a source but its queues."""

    layout = (("Connection", f"{BrokerForm.connection} management_url"),)
    rest = "Settings"
    check_arguments = staticmethod(partial(checked_source, needs_queues=False))
    kinds_of = source_settings()
    name = TextField("Name", most=100, hint="the broker’s host")


class DirectoryPlaceForm(PlaceForm, DirectoryForm):
    """A directory."""


class ProgramsForm(PlaceForm):
    """Messages that programs hand in."""

    only_kind = PROGRAMS
    check_arguments: ClassVar[Callable[..., Any]] = staticmethod(dict)
    name = TextField("Name", most=100, needed=True, hint="shop", note="The destination gets this name.")


PLACES: Mapping[str, tuple[str, str, type[PlaceForm]]] = {
    "broker": ("A broker", "Queues of dead letters at one of the known message brokers", BrokerPlaceForm),
    "files": ("Files", "A directory of NDJSON, Parquet or gzip", DirectoryPlaceForm),
    PROGRAMS: ("Programs", "They hand messages in over HTTP", ProgramsForm),
}


def place_of(kind: str) -> str:
    """Return the place that a kind of source is."""
    return "broker" if kind in BROKERS else "files" if kind == SourceKind.DIRECTORY else PROGRAMS


class QueuesForm(PageForm):
    """The queues that are drained."""

    queues = lines_of(
        "Queues or topics to drain, one a line",
        needed=True,
        hint="orders.dlq",
        note="Add those that were found, or type the name of one that is not listed.",
    )

    def __init__(self, data: Mapping[str, Any] | None, place: Origin, **more: Any) -> None:
        super().__init__(data, **more)
        self.place = place

    def check(self) -> None:
        """Raise what the command would refuse."""
        if queues := self.cleaned_data.get("queues"):
            checked_config(self.place.kind, self.place.config_with(queues), name=self.place.name)

    def field_of(self, error: PoisonAdminError) -> str:  # noqa: ARG002
        """Return the only field."""
        return "queues"


class TargetForm(PageForm):
    """The destination of the messages, and the addresses that it is for."""

    url = TextField("URL", most=2000, hint="https://orders.example.org/messages")
    secrets = TextField(
        "Secret headers, one a line",
        read=headers_by_line,
        rows=2,
        hint="Authorization: Bearer …",
        note="They are never shown again.",
        widget=SecretLines,
    )
    destination = TextField("Destination", choices=[("", "–")])
    patterns = lines_of("For messages at these addresses, one pattern a line", hint="orders.#", rows=3)

    def __init__(
        self, data: Mapping[str, Any] | None, place: Origin, names: list[str], kept: Mapping[str, Any]
    ) -> None:
        super().__init__(data, initial={"target": "back" if place.kind in BROKERS else "http", **kept})
        self.place, self.kept = place, kept
        self.fields["destination"].widget.choices += [(name, name) for name in names]
        self.fields["target"] = forms.ChoiceField(choices=[(name, title) for name, title, _ in self.targets()])
        if kept.get("secrets"):
            self.fields["secrets"].widget.attrs["placeholder"] = "unchanged"

    def targets(self) -> list[tuple[str, str, str]]:
        """Return what can be chosen: its value, its title and what it means."""
        back = ("back", "Back", "To the queue or topic where each message failed, at the same broker")
        known = ("existing", "A destination that there is", "An HTTP endpoint, a handler or a broker")
        return [
            *([back] if self.place.kind in BROKERS else []),
            ("http", "An HTTP endpoint", "Each message is sent as a request; 2xx means delivered"),
            *([known] if len(self.fields["destination"].widget.choices) > 1 else []),
            ("later", "Nowhere yet", "Messages are kept and grouped; what is approved goes where policies say"),
        ]

    def answer(self) -> dict[str, Any]:
        """Return what is kept."""
        typed = {name: self.cleaned_data.get(name) for name in self.fields}
        if not typed["secrets"] and typed["url"] == self.kept.get("url"):
            typed["secrets"] = self.kept.get("secrets")
        patterns = [] if typed["target"] == "later" else typed["patterns"]
        return typed | {"secrets": typed["secrets"] or {}, "patterns": patterns}

    def check(self) -> None:
        """Raise what the commands would refuse."""
        chosen = self.answer()
        all_checked({"target": partial(self._check_target, chosen), "patterns": partial(self._check_patterns, chosen)})

    def _check_target(self, chosen: Mapping[str, Any]) -> None:
        if chosen["target"] == "http":
            checked_destination(DestinationSettings(name=self.place.name, **http_destination(chosen)))
        if chosen["target"] == "existing" and not chosen["destination"]:
            raise InvalidField("destination", "choose one")

    def _check_patterns(self, chosen: Mapping[str, Any]) -> None:
        if not chosen["patterns"] and chosen["target"] != "later":
            raise InvalidField("patterns", "say which messages go there, such as orders.#")
        for pattern in chosen["patterns"] or ():
            if find_policy(validate_pattern(pattern)) is not None:
                raise AlreadyExists(f"There is a policy {pattern} already: name other addresses, or change that one.")

    def field_of(self, error: PoisonAdminError) -> str:
        """Return the field of an error; those of patterns name none."""
        return super().field_of(error) or "patterns"


class RetryForm(PolicyFields):
    """A preset, and the sentence of a policy."""

    def check(self) -> None:
        """Raise what the command would refuse, and where a wait that was typed would be cut by a limit that was not."""
        typed = self.spec()
        checked = checked_policy(ANY_WORDS, preset=typed.preset, settings=typed.settings)
        policy = PolicyIndex([PolicySpec(ANY_WORDS, typed.preset, typed.settings)]).resolve_pattern(ANY_WORDS).policy
        if "redelivery_delay" in checked and policy.redelivery_delay > policy.delay_cap:
            cut = f"a wait of {written(policy.redelivery_delay)} would be cut to {written(policy.delay_cap)}"
            raise InvalidSetting("max_redelivery_delay", f"{cut}: say how long at most")


class BeginForm(PageForm):
    """The last step."""

    undone = "Nothing was made."
    mode = forms.ChoiceField(label="How it begins", required=False)

    def __init__(self, data: Mapping[str, Any] | None, place: Origin, **options: Any) -> None:
        super().__init__(data, **options)
        broker = BROKERS.get(place.kind)
        observed = [("observe", "Observe only")] if broker and broker.can_be_observed else []
        choices = [("drain", "Drain"), *observed, ("off", "Switched off")]
        cast("forms.ChoiceField", self.fields["mode"]).choices = choices


def http_destination(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new HTTP destination."""
    return {"kind": DestinationKind.HTTP, "config": {"url": target["url"]}, "secrets": target["secrets"]}
