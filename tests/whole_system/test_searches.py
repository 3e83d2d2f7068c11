"""A search in payloads through the whole system: begun by the API, carried out by the batch worker's own thread."""

import pytest

from tests.whole_system.http_destination import CreateHttpDestination
from tests.whole_system.installation import Installation, until


@pytest.mark.usefixtures("batch_worker")
def test_a_text_in_a_payload_is_found(
    installation: Installation, create_http_destination: CreateHttpDestination
) -> None:
    destination = create_http_destination("searched")
    wanted = destination.send('{"customer": "customer-4711", "total": 7}', content_type="application/json")
    destination.send('{"customer": "customer-4712"}', content_type="application/json")
    path = f"searches/{installation.post('searches/', {'q': 'payload:customer-4711 payload.$.total:<8'})['id']}/"
    until(lambda: installation.get(path)["ended_at"] is not None, 120)
    found = installation.get(path)
    assert (found["state"], found["error"], found["result"]["hits"]) == ("succeeded", None, 1)
    assert [one["id"] for one in found["result"]["first"]] == [str(wanted)]
    assert installation.get(f"selections/{found['result']['selection']}/")["count"] == 1
