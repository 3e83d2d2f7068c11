"""Which policy is in force on an address, and where each of its values comes from (R9, ART-18)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from poisonadmin.core.domain.addresses import ANY_WORDS, ONE_WORD, PatternIndex, specificity, validate_pattern
from poisonadmin.core.domain.durations import written
from poisonadmin.core.domain.settings import InputKind
from poisonadmin.policies.domain.policy import BUILT_IN, BUILT_IN_PATTERN, Policy, preset
from poisonadmin.policies.domain.settings import SECTIONS, SETTINGS, validate_settings

FIELDS = tuple(policy_field.name for policy_field in fields(Policy))
DESTINATION = "destination"


class ValueOrigin(NamedTuple):
    """The origin of a value: the pattern of a policy and, when the preset set it, that preset's name."""

    pattern: str
    preset: str | None


# What is in force where nothing is configured; its name is no preset, so it cannot be confused with one.
BUILT_IN_ORIGIN = ValueOrigin(BUILT_IN_PATTERN, "built_in")


@dataclass(frozen=True)
class PolicySpec:
    """One policy object as an administrator wrote it: a pattern, and what it sets where the pattern matches."""

    pattern: str
    preset: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    destination: str | None = None  # the name of a destination, not an address
    version: int = 1


@dataclass(frozen=True)
class Resolved:
    """The values in force on an address; `origins` has one entry a policy field, and `destination` when set."""

    policy: Policy
    destination: str | None
    origins: Mapping[str, ValueOrigin]


class PolicyIndex:
    """Many policy objects, compiled, so that an address is resolved without looking at all of them.

    Errors: `InvalidAddress`, `UnknownPreset`, `UnknownSetting`, `InvalidSetting` for a spec that is wrong, `ValueError`
    for two specs with one pattern.
    """

    def __init__(self, specs: Iterable[PolicySpec]) -> None:
        self._layers: dict[str, _Layer] = {}
        for spec in specs:
            if spec.pattern in self._layers:
                raise ValueError(f"Two policies match {spec.pattern!r}.")
            self._layers[spec.pattern] = _compile(spec)
        self._index = PatternIndex(self._layers)
        # Addresses may be many; the sets of patterns that match them are few.
        self._cache: dict[tuple[str, ...], Resolved] = {}

    def matching(self, address: str) -> tuple[str, ...]:
        """Return the patterns of the policies that apply to `address`, the most specific first."""
        return self._index.matching(address)

    def resolve(self, address: str) -> Resolved:
        """Return what is in force on `address`, merged field by field, the most specific pattern first."""
        patterns = self._index.matching(address)
        return self._merged(patterns)

    def resolve_pattern(self, pattern: str) -> Resolved:
        """Return what is in force where `pattern` matches and nothing more specific does.

        Errors: `InvalidAddress`.

        >>> book = PolicyIndex([PolicySpec("orders.#", "artemis"), PolicySpec("orders.eu", "sap")])
        >>> book.resolve_pattern("orders.*").origins["max_delivery_attempts"]
        ValueOrigin(pattern='orders.#', preset='artemis')
        """
        words = validate_pattern(pattern).split(".")
        # A word that no pattern names stands for what a wildcard may match.
        example = ".".join("\N{MIDDLE DOT}" if word in (ANY_WORDS, ONE_WORD) else word for word in words)
        own = specificity(pattern)
        return self._merged(tuple(one for one in self._index.matching(example) if specificity(one) >= own))

    def _merged(self, patterns: tuple[str, ...]) -> Resolved:
        resolved = self._cache.get(patterns)
        if resolved is None:
            resolved = self._cache[patterns] = _merge([self._layers[pattern] for pattern in patterns])
        return resolved


def resolve(specs: Iterable[PolicySpec], address: str) -> Resolved:
    """Return what is in force on `address`; `PolicyIndex` does the same for many addresses.

    >>> specs = [PolicySpec("orders.#", "artemis"), PolicySpec("orders.vip", settings={"max_delivery_attempts": -1})]
    >>> resolved = resolve(specs, "orders.vip")
    >>> resolved.policy.max_delivery_attempts, resolved.origins["max_delivery_attempts"]
    (-1, ValueOrigin(pattern='orders.vip', preset=None))
    >>> resolved.policy.redelivery_delay, resolved.origins["redelivery_delay"]
    (0, ValueOrigin(pattern='orders.#', preset='artemis'))
    """
    return PolicyIndex(specs).resolve(address)


@dataclass(frozen=True)
class _Layer:
    """The parts of a policy object: a preset, which sets every field, and the fields that it sets itself."""

    pattern: str
    preset: str | None
    overrides: dict[str, object]


def _compile(spec: PolicySpec) -> _Layer:
    if spec.preset is not None:
        preset(spec.preset)
    overrides = validate_settings(spec.settings)
    if spec.destination is not None:
        overrides[DESTINATION] = spec.destination
    return _Layer(spec.pattern, spec.preset, overrides)


def _merge(layers: list[_Layer]) -> Resolved:
    values = _values(BUILT_IN)
    origins = dict.fromkeys(FIELDS, BUILT_IN_ORIGIN)
    in_force: str | None = None
    for layer in reversed(layers):
        # A preset whose less specific match is the same preset adds its settings only, as two Artemis
        # address-settings are merged (R9, ART-k).
        if layer.preset is not None and layer.preset != in_force:
            in_force = layer.preset
            values |= _values(preset(layer.preset))
            origins |= dict.fromkeys(FIELDS, ValueOrigin(layer.pattern, layer.preset))
        values |= layer.overrides
        origins |= dict.fromkeys(layer.overrides, ValueOrigin(layer.pattern, None))
    destination = values.pop(DESTINATION, None)
    return Resolved(Policy(**values), destination, origins)


def _values(policy: Policy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in FIELDS}


ALWAYS_OPEN = {"Redelivery", "Dead letters", "Crashes"}


@dataclass(frozen=True)
class Value:
    """One setting in force. `is_own` False: it is the built-in one."""

    name: str
    text: str
    origin: str
    is_own: bool


@dataclass(frozen=True)
class SectionInForce:
    """The settings of a section; `opened` when a page should show them at once."""

    title: str
    values: list[Value]
    opened: bool


def values_in_force(resolved: Resolved) -> list[SectionInForce]:
    """Return every setting in force, section by section."""
    return [
        SectionInForce(title, [_value(resolved, name) for name in section], title in ALWAYS_OPEN)
        for title, section in SECTIONS.items()
    ]


def _value(resolved: Resolved, name: str) -> Value:
    origin = resolved.origins[name]
    built_in = origin == BUILT_IN_ORIGIN
    where = "built in" if built_in else f"{origin.pattern}{f' ({origin.preset})' if origin.preset else ''}"
    return Value(name, shown(name, getattr(resolved.policy, name)), where, not built_in)


def shown(name: str, value: object) -> str:
    """Return a setting's value as pages show it.

    >>> shown("redelivery_delay", 5000), shown("ordered", True), shown("keep_failed_days", None)
    ('5 s', 'yes', 'never')
    """
    one = SETTINGS[name]
    if value is None and one.hint:
        return one.hint
    if value is None or value in ((), ""):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "max_delivery_attempts" and value == -1:
        return "unlimited"
    if isinstance(value, tuple | list):
        return ", ".join(str(item) for item in value)
    if isinstance(value, int) and one.input is InputKind.DURATION:
        return written(value)
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value}{one.unit}"
