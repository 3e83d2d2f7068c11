"""A broker source together with its way back: a destination at the same broker, and the policy that delivers there."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from poisonadmin.core.domain.access import Principal
from poisonadmin.core.domain.addresses import ANY_WORDS
from poisonadmin.destinations.commands import InUse, save_destination
from poisonadmin.policies.commands import save
from poisonadmin.sources.commands.setup import save_source
from poisonadmin.sources.domain.broker_kinds import SOURCE_DEFAULTS
from poisonadmin.sources.domain.brokers import InvalidSource
from poisonadmin.store.models.destination import Destination
from poisonadmin.store.models.intake import Source
from poisonadmin.store.models.policy import PolicyRow

_PLACEHOLDERS = ("{original}", "{queue}")
_SHARED = ("url", "verify_tls", "sasl_mechanism")


def add_source(
    name: str,
    *,
    kind: str,
    config: Mapping[str, Any],
    secrets: Mapping[str, Any],
    principal: Principal,
    back: Mapping[str, Any] | None = None,
    patterns: Sequence[str] = (),
) -> Source:
    """Create a source and, where `back` is given, a destination of its name with these settings, and its policies.

    `patterns` empty: the pattern of all addresses that the source's template can give.
    Errors: as `save_source`, `save_destination` and `save_policy`; `InUse` where a name or a pattern is taken. Nothing
    is saved then.
    """
    with transaction.atomic():
        if Source.objects.filter(name=name).exists():
            raise InUse(f"There is a source {name} already.")
        source = save_source(name, kind=kind, config=config, secrets=secrets, principal=principal)
        if back is None:
            return source
        if Destination.objects.filter(name=name).exists():
            raise InUse(f"There is a destination {name} already.")
        shared = {field: source.config[field] for field in _SHARED if field in source.config}
        save_destination(
            name,
            kind=kind,
            config=shared | dict(back),
            secrets=secrets,
            max_rate_per_second=None,
            principal=principal,
        )
        for pattern in patterns or [pattern_of(source.config.get("address", SOURCE_DEFAULTS[kind]["address"]))]:
            if PolicyRow.objects.filter(match=pattern).exists():
                raise InUse(
                    f"There is a policy {pattern} already: name another pattern, or the destination in that one."
                )
            save.save_policy(pattern, preset=None, settings={}, destination=name, principal=principal)
    return source


def pattern_of(template: str) -> str:
    """Return the pattern that covers every address of a template; raise InvalidSource where none does.

    >>> pattern_of("rabbit.{original}"), pattern_of("{original}")
    ('rabbit.#', '#')
    """
    words = template.split(".")
    for word in words:
        if word not in _PLACEHOLDERS and any(placeholder in word for placeholder in _PLACEHOLDERS):
            raise InvalidSource("address", f"no pattern covers {template}; say which addresses are to go back")
    return ".".join(ANY_WORDS if word in _PLACEHOLDERS else word for word in words)
