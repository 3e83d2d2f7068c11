"""The configuration as a YAML file, whose secrets are references to variables of the environment."""

import json
from collections.abc import Mapping
from typing import Any

import yaml

REFERENCE = "$env"


class InvalidDocument(ValueError):
    """Raised when a file is not a document of a configuration."""


class _Loader(yaml.SafeLoader):
    """Leaves times the texts that they are in the API."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_document(text: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the document, each reference replaced where its variable is set. Errors: `InvalidDocument`.

    >>> read_document("destinations: [{name: shop, secrets: {X: {$env: KEY}, Y: {$env: NONE}}}]", {"KEY": "k"})
    {'destinations': [{'name': 'shop', 'secrets': {'X': 'k', 'Y': {'$env': 'NONE'}}}]}
    """
    try:
        found = yaml.load(text, _Loader)  # noqa: S506  (a safe one)
        if not isinstance(found, dict):
            raise InvalidDocument("must be kinds of configuration, each with a list of objects")
        resolved: dict[str, Any] = _resolved(found, environment)
        json.dumps(resolved)
    except (yaml.YAMLError, RecursionError, TypeError) as error:
        raise InvalidDocument(f"no YAML that is JSON, too: {error}") from None
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
