"""Random requests made from the OpenAPI document, good ones and bad ones.

No answer is a 5xx, and each one has a status, a media type and a shape that the document names.
"""

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import CoveragePhaseData, CoverageScenario
from schemathesis.pytest import _test_builder

from poisonadmin.intake.api import NDJSON
from tests.fixtures.api import Caller

DOCUMENT: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
# Generated requests of an operation, beside those for each of its parameters; the many are for `make test-long`.
EXAMPLES, MANY_EXAMPLES = 2, 30
CHECKED = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.unsupported_method,
]
KNOWN_IDS = {
    "token_id": "account_token",
    "message_id": "undecided",
    "group_id": "group",
    "policy_id": "policy",
    "source_id": "source",
    "rejected_id": "rejected",
    "job_id": "job",
    "entry_id": "entry",
    "restart_job_id": "restart_job",
    "sign_off_rule_id": "sign_off_rule",
    "rule_id": "rule",
    "alert_rule_id": "alert_rule",
    "alert_delivery_id": "alert_delivery",
}
KNOWN_NAMES = {"accounts": "clerk", "addresses": "orders.eu", "destinations": "shop", "nodes": "billing-1"}


def built_when_called(build: Callable[..., Callable[..., None]], **given: Any) -> Callable[..., None]:
    """Return an operation's test whose requests are generated when it is first called.

    Schemathesis generates them when it collects, which takes longer than all other tests' collection together, in each
    process of a run.
    """

    def test(**fixtures: Any) -> None:
        built = build(**given)
        test.__dict__.update(built.__dict__)
        built(**fixtures)

    function = given["test_func"]
    signature = inspect.signature(function)
    test.__dict__["pytestmark"] = function.pytestmark
    test.__dict__["__signature__"] = signature.replace(
        parameters=[parameter for name, parameter in signature.parameters.items() if name != "case"]
    )
    return test


_test_builder.build_operation_test = partial(built_when_called, _test_builder.build_operation_test)
schema = schemathesis.openapi.from_dict(DOCUMENT)
schema.app = get_wsgi_application()


@dataclass(frozen=True)
class Tried:
    """A value that schemathesis makes a request of. `declaration`: what the document says of its place, as JSON."""

    place: str
    name: str
    declaration: str
    value: str


def tried(case: Any) -> Tried | None:
    """Return the one value that a request of the coverage phase is about; None where it is about more, or another."""
    about = case.meta.phase.data
    if not isinstance(about, CoveragePhaseData) or about.scenario is CoverageScenario.MISSING_PARAMETER:
        return None
    operation = DOCUMENT["paths"][case.operation.path][case.operation.method.lower()]
    if about.parameter_location is ParameterLocation.BODY:
        _, _, pointer = (about.location or "").partition("/")
        kind, _, rest = pointer.partition("/")
        if pointer == "type":
            return Tried("body", "", "", repr(case.body))
        if kind != "properties" or not isinstance(case.body, dict):
            return None
        name = rest.partition("/")[0]
        declared, values = _properties_of(operation, case.media_type), case.body
    else:
        declared = {one["name"]: one for one in operation.get("parameters", [])}
        name, place = about.parameter, about.parameter_location
        values = (place and getattr(case, place.container_name)) or {}
    if name not in declared or name not in values:
        return None
    return Tried(str(about.parameter_location), name, json.dumps(declared[name], sort_keys=True), repr(values[name]))


def _properties_of(operation: dict[str, Any], media_type: str) -> dict[str, Any]:
    schema = operation["requestBody"]["content"][media_type]["schema"]
    named = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = (DOCUMENT["components"]["schemas"][named] if named else schema).get("properties", {})
    return found


SEEN: set[object] = set()


@schema.hook
def filter_case(context: Any, case: Any) -> bool:
    """Leave out a value that was tried already where the document says the same, such as of `limit` on another list.

    Schemathesis tries each wrong value of a parameter twice, alone and beside others, and does so at each operation.
    Each operation keeps a right one and a wrong one of each of its parameters.
    """
    if (value := tried(case)) is None:
        return True
    here = (case.operation.label, value.place, value.name, case.meta.generation.mode)
    is_needed = here not in SEEN or value not in SEEN
    SEEN.update((here, value))
    return is_needed


@schemathesis.serializer(*NDJSON)
def as_lines(context: Any, value: Any) -> Any:
    """Send a generated text as it is, as the lines of a batch."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


def test_the_document_is_valid_openapi() -> None:
    validate_schema(DOCUMENT)


def test_the_document_names_every_operation_once() -> None:
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))
    assert all(operation["summary"] for path in DOCUMENT["paths"].values() for operation in path.values())


@pytest.fixture
def kept_connection() -> Iterator[None]:
    """Keep the test's database connection over the end of a request, as Django's test client does; log errors only."""
    logging.disable(logging.WARNING)
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)
    logging.disable(logging.NOTSET)


def generated(examples: int, **more: Any) -> settings:
    """Return settings that generate so many examples, each time the same.

    None is made smaller once it fails: that takes five minutes, in which the run could end.
    """
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)],
        suppress_health_check=list(HealthCheck),
        **more,
    )


@pytest.mark.usefixtures("kept_connection")
@schema.parametrize()
@generated(EXAMPLES)
def test_no_request_breaks_the_api_or_its_promises(case: Any, one_of_each: dict[str, Any], admin: Caller) -> None:
    point_at_something(case, one_of_each)
    case.call_and_validate(headers={"Authorization": f"Bearer {admin.token}"}, checks=CHECKED)


@pytest.mark.long
@pytest.mark.usefixtures("kept_connection")
@schema.parametrize()
@generated(MANY_EXAMPLES)
def test_none_of_many_requests_breaks_the_api(case: Any, one_of_each: dict[str, Any], admin: Caller) -> None:
    point_at_something(case, one_of_each)
    case.call_and_validate(headers={"Authorization": f"Bearer {admin.token}"}, checks=CHECKED)


def point_at_something(case: Any, one_of_each: dict[str, Any]) -> None:
    """Let most well-formed requests be about an object that exists."""
    for name, value in dict(case.path_parameters).items():
        if name in KNOWN_IDS and str(value).isdigit():
            case.path_parameters[name] = str(one_of_each[KNOWN_IDS[name]])
        elif name == "name" and isinstance(value, str) and len(value) % 3:
            case.path_parameters[name] = KNOWN_NAMES[case.path.split("/")[3]]


@pytest.mark.parametrize("path", [path for path in DOCUMENT["paths"] if "{" not in path])
def test_a_list_without_parameters_is_served(path: str, one_of_each: dict[str, Any], admin: Caller) -> None:
    operations = DOCUMENT["paths"][path]
    if "get" in operations and not any(p.get("required") for p in operations["get"].get("parameters", [])):
        assert admin.get(path).status_code == 200
