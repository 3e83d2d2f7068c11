"""Settings: the fields of whatever people configure, each declared once.

Commands check values by these declarations, forms and the API's inputs are made of them, and rows inherit them. A set
of settings is a class (`@configuration`) where the rest of the code reads its values, else a tuple (`named`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar, dataclass_transform

from poisonadmin.core.domain.addresses import InvalidAddress
from poisonadmin.core.domain.errors import InvalidField, PoisonAdminError, all_checked
from poisonadmin.core.domain.ssrf import NetworkGuard

Of = TypeVar("Of")
Check = Callable[..., Any]
"""(value) -> the value as it is stored; raises `InvalidValue`. One that `is_guarded` takes a `NetworkGuard` too."""
Checks = Mapping[str, Callable[[], Any]]
Refuse = Callable[[str, str], PoisonAdminError]
"""(field, reason) -> the error of the feature."""
REQUIRED: Any = object()
"""The default of a setting that may not be left out."""


class InvalidValue(ValueError):
    """Raised by a check, which does not know the setting's name; its text says what the value must be."""


class InputKind(StrEnum):
    """The kinds of fields in forms and in the API; they declare an OTHER one themselves."""

    TEXT = "text"
    NUMBER = "number"
    DECIMAL = "decimal"
    DURATION = "duration"
    CHOICE = "choice"
    SWITCH = "switch"
    LINES = "lines"
    PARAMETERS = "parameters"
    OTHER = "other"


@dataclass(frozen=True)
class Setting:
    """One field of a configuration.

    `default`: its value where it is left out; one whose default is None may be given as null. `label`, `hint` (shown
    while the field is empty), `note` (shown below it), `rows` the `unit` and the `words` of its values are the
    pages'.
    `most`: characters of a text, or lines; `least` lines; `each`: characters of a line. `api`: further arguments of the
    API's field. `stored`: what is stored where it is left out; `{name}` stands for the name of
    what is configured. `is_redirect`: messages go there instead of where they failed.
    """

    input: InputKind
    label: str = ""
    check: Check | None = None
    default: Any = REQUIRED
    name: str = ""
    hint: str = ""
    note: str = ""
    unit: str = ""
    rows: int | None = None
    least: int | None = None
    most: int | None = None
    each: int | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    api: Mapping[str, Any] = field(default_factory=dict)
    stored: str | None = None
    is_guarded: bool = False
    is_redirect: bool = False

    @property
    def is_needed(self) -> bool:
        """True where a form may not leave it empty: an empty field would mean none of its values."""
        is_typed = self.input not in (InputKind.SWITCH, InputKind.CHOICE)
        return self.default is REQUIRED or (is_typed and self.default not in (None, "", [], {}))

    @property
    def choices(self) -> Mapping[str, str]:
        """Its values, where it has one of some, each with its words."""
        values = self.check.values if isinstance(self.check, KnownTexts) else ()
        return self.words or {value: value for value in values}

    @property
    def bounds(self) -> dict[str, Any]:
        """Its bounds, where it is a number that has some."""
        return {"min_value": self.check.least, "max_value": self.check.most} if isinstance(self.check, Bounds) else {}


def setting(
    kind: InputKind, label: str = "", check: Check | None = None, *, default: Any = REQUIRED, **more: Any
) -> Any:
    """Return a setting, as the attribute of a configuration."""
    return Setting(kind, label, check, default, **more)


text = partial(setting, InputKind.TEXT)
number = partial(setting, InputKind.NUMBER)
decimal = partial(setting, InputKind.DECIMAL)
choice = partial(setting, InputKind.CHOICE)
switch = partial(setting, InputKind.SWITCH)
lines = partial(setting, InputKind.LINES)
parameters = partial(setting, InputKind.PARAMETERS)
other = partial(setting, InputKind.OTHER)


def name_of(most: int, label: str = "Name", *, is_in_path: bool = False, is_stripped: bool = False) -> Any:
    """Return the name that people give to what they configure."""

    def check(value: str) -> str:
        value = value.strip() if is_stripped else value
        if (mistake := mistake_in(value, most, is_in_path=is_in_path)) is not None:
            raise InvalidValue(mistake)
        return value

    return text(label, check, most=most)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def configuration(of: type[Of]) -> type[Of]:
    """Make a frozen dataclass of a class whose attributes are settings."""
    for name in of.__annotations__:
        one: Setting = getattr(of, name)
        kept: dict[str, Any] = {"metadata": {"setting": replace(one, name=name)}}
        if isinstance(one.default, dict | list):
            kept["default_factory"] = partial(type(one.default), one.default)
        elif one.default is not REQUIRED:
            kept["default"] = one.default
        setattr(of, name, field(**kept))
    return dataclass(frozen=True, kw_only=True)(of)


def named(**settings: Setting) -> tuple[Setting, ...]:
    """Return the settings, each with its name."""
    return tuple(replace(one, name=name) for name, one in settings.items())


def settings_of(of: type[Any], *, but: Collection[str] = ()) -> dict[str, Setting]:
    """Return the settings of a configuration by name, but some; those that it inherits too."""
    found = (one.metadata["setting"] for one in fields(of) if "setting" in one.metadata)
    return {one.name: one for one in found if one.name not in but}


def checked(values: Of, refuse: Refuse, *, also: Checks | None = None, instead: Checks | None = None) -> Of:
    """Return the values of a configuration as they are stored, all of them checked.

    `also`: checks by name that take more than one value; `instead`: those of them that return what is stored.
    Errors: `refuse`, and whatever these checks raise that is no error of a field.
    """
    more = {**(also or {}), **(instead or {})}
    checks: dict[str, Callable[[], Any]] = {}
    for name, one in settings_of(type(values)).items():
        value = getattr(values, name)
        if name in more:
            checks[name] = more[name]
        elif one.check is not None and (value is not None or one.default is not None):
            checks[name] = partial(one.check, value)
    found = all_checked({name: partial(of_field, name, check, refuse) for name, check in (checks | more).items()})
    stored = {name: value for name, value in found.items() if name not in (also or {})}
    return replace(values, **stored)  # type: ignore[type-var]


def of_field(name: str, check: Callable[[], Any], refuse: Refuse) -> Any:
    """Return what a check returns; its errors are the feature's, about this field or those that they name."""
    try:
        return check()
    except InvalidField as error:
        errors = (error, *error.others)
        first, *others = (refuse(one.field, one.reason) if isinstance(one, InvalidField) else one for one in errors)
        first.others = tuple(others)
        raise first from None
    except InvalidAddress as error:
        raise refuse(name, error.detail) from None
    except InvalidValue as error:
        raise refuse(name, str(error)) from None


def checked_config(
    settings: Iterable[Setting],
    config: Mapping[str, Any],
    refuse: Refuse,
    *,
    guard: NetworkGuard | None = None,
    instead: Checks | None = None,
    name: str = "",
) -> dict[str, Any]:
    """Return a configuration as it is stored, only what it sets.

    `instead`: the checks of what is no setting, or is checked with more than its value. What a setting says is to be
    stored is filled in, from the `name` of what is configured.
    Errors: `refuse`, also for a name that is unknown.
    """
    known = {one.name: one for one in settings}
    names = [*(name for name in instead or {} if name not in known), *known]
    for field_name in config:
        if field_name not in names:
            raise refuse(str(field_name)[:100], f"unknown; known are {', '.join(names)}")
    filled_in = {one.name: one.stored.format(name=name) for one in known.values() if one.stored} | dict(config)
    checks = dict(instead or {})
    for one in known.values():
        value = filled_in.get(one.name)
        is_set = value is not None or (one.name in filled_in and (one.default is not None or one.stored))
        if one.check and one.name not in checks and (is_set or one.default is REQUIRED):
            checks[one.name] = partial(one.check, value, **({"guard": guard} if one.is_guarded else {}))
    return all_checked({name: partial(of_field, name, check, refuse) for name, check in checks.items()})


@dataclass(frozen=True)
class Bounds:
    """The check of a number. `of_type`: the text about a value that is none, where it is another one."""

    least: float
    most: float
    wrong: str
    types: type | tuple[type, ...] = int
    of_type: str = ""

    def __call__(self, value: Any) -> Any:
        """Return the value; raise InvalidValue."""
        is_number = isinstance(value, self.types) and not isinstance(value, bool)
        if not is_number or not self.least <= value <= self.most:
            raise InvalidValue(self.wrong if is_number or not self.of_type else self.of_type)
        return value


def whole(least: int, most: int, unit: str = "", *, wrong: str = "must be a whole number from {} to {}") -> Bounds:
    """Return the check of a whole number."""
    return Bounds(least, most, f"{wrong.format(least, most)}{unit}")


def fraction(least: float, most: float, unit: str = "") -> Bounds:
    """Return the check of a number."""
    return Bounds(least, most, f"must be a number from {least} to {most}{unit}", (int, float))


def within(least: int, most: int) -> Bounds:
    """Return the check of a whole number, with bounds that are named only where it is one."""
    return Bounds(least, most, f"must be within {least}..{most}.", of_type="must be a whole number.")


@dataclass(frozen=True)
class KnownTexts:
    """The check of one of some texts."""

    values: tuple[str, ...]
    end: str

    def __call__(self, value: object) -> str:
        """Return the value; raise InvalidValue."""
        if not isinstance(value, str) or value not in self.values:
            raise InvalidValue(f"must be one of {', '.join(self.values)}{self.end}")
        return str(value)


def one_of(values: Iterable[str], end: str = "") -> KnownTexts:
    """Return the check of one of these texts."""
    return KnownTexts(tuple(map(str, values)), end)


def flag(value: object) -> bool:
    """Check a setting that is on or off."""
    if not isinstance(value, bool):
        raise InvalidValue("must be true or false")
    return value


def mistake_in(name: str, most: int, *, is_in_path: bool = False) -> str | None:
    """Return what is wrong with a name of at most `most` characters, None where nothing is.

    `is_in_path`: the name is one word of a URL's path, where a slash, `.` and `..` mean something else.

    >>> mistake_in("shop", 100), mistake_in("", 100), mistake_in("..", 100, is_in_path=True)
    (None, 'is required', 'may not be . or ..: it is part of a path')
    """
    if not name.strip():
        return "is required"
    if len(name) > most:
        return f"may have at most {most} characters, and has {len(name)}"
    if not name.isprintable():
        return "may hold only printable characters"
    if is_in_path and "/" in name:
        return "may hold no slash: it is part of a path"
    if is_in_path and name in (".", ".."):
        return "may not be . or ..: it is part of a path"
    return None
