"""The configuration as a YAML file, whose secrets are references to variables of the environment."""

from collections.abc import Mapping
from typing import Any

import yaml

REFERENCE = "$env"


class InvalidDocument(ValueError):
    """Raised when a file is not a document of a configuration."""


def read_document(text: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the document, each reference replaced where its variable is set. Errors: `InvalidDocument`.

    >>> read_document("destinations: [{name: shop, secrets: {X: {$env: KEY}, Y: {$env: NONE}}}]", {"KEY": "k"})
    {'destinations': [{'name': 'shop', 'secrets': {'X': 'k', 'Y': {'$env': 'NONE'}}}]}
    """
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidDocument(f"no YAML: {error}") from None
    if not isinstance(found, dict):
        raise InvalidDocument("must be kinds of configuration, each with a list of objects")
    resolved: dict[str, Any] = _resolved(found, environment)
    return resolved


def write_document(document: Mapping[str, Any]) -> str:
    """Return the document as YAML, without kinds that have no object."""
    kept = {kind: objects for kind, objects in document.items() if objects}
    return yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=120)


def _resolved(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        if set(value) == {REFERENCE}:
            return environment.get(str(value[REFERENCE])) or value
        return {name: _resolved(one, environment) for name, one in value.items()}
    return [_resolved(one, environment) for one in value] if isinstance(value, list) else value
