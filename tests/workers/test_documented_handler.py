"""The handler in docs/operate/handlers.md does what the page says."""

import re
from pathlib import Path

from tests.workers.sinks import delivery
from tests.workers.test_hostile_handlers import handled

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operate" / "handlers.md"


def test_the_example_takes_an_order_and_refuses_one_without_lines(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "orders.py").write_text(code)
    payloads = [b'{"id": 7, "lines": [1]}', b'{"id": 8, "lines": []}', b"no order"]
    deliveries = [delivery(number, payload=payload) for number, payload in enumerate(payloads, 1)]
    taken, empty, garbled = handled(deliveries, tmp_path / "journals", module="orders", root=tmp_path)
    assert (taken.outcome, taken.output) == ("delivered", b"taken 7 attempt 1\n")
    assert (empty.outcome, empty.error_class, empty.error_message) == ("failed", "ValueError", "order 8 has no lines")
    assert (garbled.outcome, garbled.error_class) == ("failed", "json.decoder.JSONDecodeError")


def test_the_answers_that_the_page_names_are_there(tmp_path: Path) -> None:
    [line] = re.findall(r"`(from poisonadmin_handler import [^`]+)`", PAGE.read_text())
    (tmp_path / "orders.py").write_text(f"{line}\n\n\ndef handle(message):\n    return Discard('enough')\n")
    [row] = handled([delivery()], tmp_path / "journals", module="orders", root=tmp_path)
    assert (row.outcome, row.error_message) == ("discarded", "enough")
