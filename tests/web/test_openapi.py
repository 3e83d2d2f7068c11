"""Random requests made from the OpenAPI document, good ones and bad ones.

No answer is a 5xx, and each one has a status, a media type and a shape that the document names.
"""

import inspect
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.pytest import _test_builder

from poisonadmin.intake.api import NDJSON
from tests.fixtures.api import Caller

DOCUMENT: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
EXAMPLES = 8
CHECKED = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.unsupported_method,
]
KNOWN_IDS = {
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
KNOWN_NAMES = {"addresses": "orders.eu", "destinations": "shop", "nodes": "billing-1"}


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


@pytest.mark.usefixtures("kept_connection")
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_no_request_breaks_the_api_or_its_promises(case: Any, one_of_each: dict[str, Any], admin: Caller) -> None:
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
