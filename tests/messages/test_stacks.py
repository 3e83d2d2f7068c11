"""Stack traces of four languages: where it went wrong, and what began it."""

import json
import textwrap
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poisonadmin.desk.pages.readable import folded
from poisonadmin.groups.domain.stacks import first_application_frame, root_cause_class, thrown_class

PYTHON_CAUSE = """\
Traceback (most recent call last):
  File "/srv/shop-1.2/orders/totals.py", line 7, in total
    return Decimal(text)
  File "/usr/lib/python3.11/decimal.py", line 99, in __new__
    raise InvalidOperation
decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/shop-1.2/worker.py", line 31, in run
    handle(message)
  File "/srv/shop-1.2/orders/handler.py", line 12, in handle
    raise OrderRejected(order) from error
shop.errors.OrderRejected: order 17
"""
PYTHON_CONTEXT = PYTHON_CAUSE.replace(
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
PYTHON_LIBRARY_ONLY = """\
Traceback (most recent call last):
  File "/app/.venv/lib/python3.11/site-packages/pika/channel.py", line 3, in consume
    self._x()
  File "<frozen importlib._bootstrap>", line 1, in _load
pika.exceptions.ChannelClosed: (404, 'NOT_FOUND')
"""
JAVA = """\
Exception in thread "main" com.acme.OrderException: order 17
\tat org.springframework.jms.listener.AbstractMessageListenerContainer.invoke(AbstractMessageListenerContainer.java:7)
\tat com.acme.orders.Listener$1.onMessage(Listener.java:31)
\tat com.acme.orders.Listener$$EnhancerBySpringCGLIB$$1a2b.onMessage(<generated>)
\tat java.base/java.lang.Thread.run(Thread.java:829)
\tSuppressed: java.io.IOException: closing
\t\tat com.acme.orders.Files.close(Files.java:5)
\tCaused by: com.acme.NotTheCause
Caused by: org.hibernate.HibernateException: flush
\tat org.hibernate.Session.flush(Session.java:1)
\tat com.acme.orders.Repository.save(Repository.java:55)
\t... 9 more
Caused by: java.sql.SQLException: duplicate key
\tat org.postgresql.core.QueryExecutor.receive(QueryExecutor.java:2676) ~[postgresql-42.jar:42]
\tat app//com.acme.dao.OrderDao.lambda$insert$3(OrderDao.java:88)
\tat jdk.internal.reflect.GeneratedMethodAccessor12.invoke(Unknown Source)
\t... 12 more
"""
DOTNET = """\
System.InvalidOperationException: Order failed
 ---> System.AggregateException: One or more errors
 ---> System.FormatException: The input string 'x' was not in a correct format.
   at System.Number.ThrowOverflowOrFormatException(ParsingStatus status, TypeCode type)
   at Acme.Orders.Totals.<ParseAsync>d__12.MoveNext() in C:\\src\\Totals.cs:line 12
   at Acme.Orders.Handler.Handle(String id) in C:\\src\\Handler.cs:line 40
   --- End of inner exception stack trace ---
   at MassTransit.Pipeline.Send(Object x)
"""
NODE = """\
TypeError: Cannot read properties of undefined (reading 'total')
    at node:internal/process/task_queues:95:5
    at async Promise.all (index 0)
    at Array.map (<anonymous>)
    at /srv/app/node_modules/express/lib/router/layer.js:95:5
    at async Orders.total (file:///srv/app/dist/orders.3f9a2b1c.js:10:21)
    at /srv/app/dist/main.js:3:1 {
  [cause]: RangeError: Invalid array length
      at checkItems (/srv/app/dist/items.js:7:9)
}
"""
KOTLIN = """\
java.lang.IllegalStateException: no
\tat kotlin.Preconditions.check(Preconditions.kt:3)
\tat com.acme.OrdersKt.handle(Orders.kt:9)
"""

TRACES = [
    pytest.param(PYTHON_CAUSE, "orders/totals.py:total", "decimal.InvalidOperation", id="python, raised from"),
    pytest.param(PYTHON_CONTEXT, "orders/handler.py:handle", None, id="python, raised while handling"),
    pytest.param(PYTHON_LIBRARY_ONLY, None, None, id="python, libraries only"),
    pytest.param(JAVA, "com.acme.dao.OrderDao.lambda$insert", "java.sql.SQLException", id="java"),
    pytest.param(KOTLIN, "com.acme.OrdersKt.handle", None, id="kotlin"),
    pytest.param(DOTNET, "Acme.Orders.Totals.ParseAsync", "System.FormatException", id="dotnet"),
    pytest.param(NODE, "dist/items.js:checkItems", "RangeError", id="node"),
    pytest.param("", None, None, id="nothing"),
    pytest.param("order 17 failed at noon (again)", None, None, id="prose"),
    pytest.param("at (a", None, None, id="noise"),
]


@pytest.mark.parametrize(("stack", "frame", "cause"), TRACES)
def test_a_trace_leads_to_its_first_application_frame_and_its_cause(
    stack: str, frame: str | None, cause: str | None
) -> None:
    assert first_application_frame(stack) == frame
    assert root_cause_class(stack) == cause


@pytest.mark.parametrize(
    ("stack", "thrown"),
    [
        (PYTHON_CAUSE, "shop.errors.OrderRejected"),
        (PYTHON_CONTEXT, "shop.errors.OrderRejected"),
        (JAVA, "com.acme.OrderException"),
        (DOTNET, "System.InvalidOperationException"),
        (NODE, "TypeError"),
        ("order 17 failed", None),
        ("", None),
    ],
)
def test_the_thrown_class_is_the_outermost(stack: str, thrown: str | None) -> None:
    assert thrown_class(stack) == thrown


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ('  File "C:\\shop\\orders\\handler.py", line 12, in handle', "orders/handler.py:handle"),
        ('  File "handler.py", line 12, in <lambda>', "handler.py:<lambda>"),
        ('  File "/srv/broken.py", line 1', "srv/broken.py:<module>"),
        ("\tat com.acme.A.b(Native Method)", "com.acme.A.b"),
        ("\tat com.acme.A.b(SourceFile:3)", "com.acme.A.b"),
        ("\tat com.acme.A.b(A.scala)", "com.acme.A.b"),
        ("\tat com.acme.Foo$$Lambda/0x0000.run(Unknown Source)", None),
        ("\tat jdk.proxy2.$Proxy12.run(Unknown Source)", None),
        ("\tat com.acme.Orders$$EnhancerBySpringCGLIB$$5f0c91aa.save(<generated>)", None),
        ("\tat com.acme.Orders$$SpringCGLIB$$0.save(<generated>)", None),
        ("\tat loader/acme.orders@1.2/com.acme.A.b(A.java:1)", "com.acme.A.b"),
        ("   at Acme.Repo`1.Load[TKey](TKey key)", "Acme.Repo.Load"),
        ("   at Acme.Orders.<>c__DisplayClass4_0.<Handle>b__0(Order o)", "Acme.Orders.Handle"),
        ("   at Microsoft.Extensions.X.Y()", None),
        ("   at lambda_method12(Closure, Object)", None),
        ("    at Object.<anonymous> (/srv/app/src/index.js:1:1)", "src/index.js:Object.<anonymous>"),
        ("    at new Order (webpack:///./src/order.ts:4:2)", "src/order.ts:new Order"),
        ("    at eval (eval at run (/a/b.js:1:1), <anonymous>:1:1)", None),
    ],
)
def test_a_frame_is_reduced_to_what_a_release_does_not_change(line: str, frame: str | None) -> None:
    assert first_application_frame(line) == frame


def test_a_cause_that_only_libraries_saw_is_found_in_the_frame_above_it() -> None:
    stack = "com.acme.W: x\n\tat com.acme.A.b(A.java:1)\nCaused by: java.io.IOException\n\tat java.io.X.y(X.java:1)\n"
    assert first_application_frame(stack) == "com.acme.A.b"
    assert root_cause_class(stack) == "java.io.IOException"


def _total(order: str) -> None:
    try:
        json.loads(order)
    except ValueError as error:
        raise LookupError("no total") from error


def test_a_trace_that_python_prints_here_is_understood() -> None:
    with pytest.raises(LookupError) as raised:
        _total("{")
    stack = "".join(traceback.format_exception(raised.value))
    assert root_cause_class(stack) == "json.decoder.JSONDecodeError"
    assert thrown_class(stack) == "LookupError"
    assert first_application_frame(stack) == "messages/test_stacks.py:_total"


def test_another_line_number_and_another_directory_are_the_same_frame() -> None:
    moved = PYTHON_CAUSE.replace("/srv/shop-1.2", "/opt/shop-1.3").replace("line 7", "line 8")
    assert first_application_frame(moved) == first_application_frame(PYTHON_CAUSE)


@given(st.text())
def test_any_text_is_read_as_a_stack(text: str) -> None:
    first_application_frame(text)
    root_cause_class(text)
    thrown_class(text)


@pytest.mark.parametrize(
    "piece",
    [
        "at ",
        "(",
        'File "',
        "a ",
        "a:1:",
        "a.",
        "---> ",
        "\n",
        "/a",
        "at a(",
        "\n   at a (b",
        "\n at ",
        "Caused by: ",
        "[cause]: ",
    ],
)
@pytest.mark.parametrize("start", ["", "    at ", "    at f (", '  File "', "Caused by: ", " ---> "])
def test_a_hostile_stack_is_read_like_any_other(start: str, piece: str) -> None:
    # A pattern that backtracks would need hours for these, and the suite would not end.
    stack = start + piece * 100_000
    first_application_frame(stack)
    root_cause_class(stack)
    thrown_class(stack)


def test_an_indented_copy_of_a_python_trace_has_the_same_frame() -> None:
    assert first_application_frame(textwrap.indent(PYTHON_CAUSE, "    ")) == "orders/totals.py:total"


def test_what_calls_a_handler_is_folded_away() -> None:
    own = '  File "/srv/poisonadmin/workers/delivery/handler/sandbox/child.py", line 254, in _told'
    theirs = '  File "/srv/shop/handlers/orders.py", line 3, in handle'
    assert first_application_frame(own) is None
    stack = f"Traceback (most recent call last):\n{own}\n    answer()\n{theirs}\n    1 / 0\nZeroDivisionError: by zero"
    assert first_application_frame(stack) == "handlers/orders.py:handle"
    assert [part.kind for part in folded(stack)] == ["text", "foreign", "own", "text"]
