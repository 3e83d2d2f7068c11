"""Invented failures as real systems print them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stack:
    """A failure of a consumer; `message` may hold `{n}`."""

    exception_class: str
    message: str
    text: str = ""
    cause_class: str | None = None
    status_code: int | None = None
    response: bytes | None = None


_PYDANTIC = """Traceback (most recent call last):
  File "/usr/local/lib/python3.11/site-packages/starlette/routing.py", line 74, in app
    response = await func(request)
  File "/usr/local/lib/python3.11/site-packages/fastapi/routing.py", line 299, in app
    raw_response = await run_endpoint_function(
  File "/srv/relay/app/hooks/pull_requests.py", line 88, in receive
    event = PullRequestEvent.model_validate(body)
  File "/usr/local/lib/python3.11/site-packages/pydantic/main.py", line 509, in model_validate
    return cls.__pydantic_validator__.validate_python(obj)
pydantic_core._pydantic_core.ValidationError: 1 validation error for PullRequestEvent
pull_request.merged_at
  Input should be a valid datetime [type=datetime_type, input_value='', input_type=str]"""

_JAVA = """com.example.relay.issues.IssueRejectedException: Issue event could not be applied
\tat com.example.relay.issues.IssueHandler.onEvent(IssueHandler.java:112)
\tat jdk.internal.reflect.GeneratedMethodAccessor81.invoke(Unknown Source)
\tat java.base/java.lang.reflect.Method.invoke(Method.java:580)
\tat org.springframework.messaging.handler.invocation.InvocableHandlerMethod.doInvoke(InvocableHandlerMethod.java:169)
\tat org.springframework.jms.listener.AbstractListenerContainer.doExecute(AbstractListenerContainer.java:493)
\tat java.base/java.lang.Thread.run(Thread.java:1583)
Caused by: java.lang.NullPointerException: Cannot invoke "Milestone.getDueOn()" because the return value is null
\tat com.example.relay.issues.MilestoneMapper.map(MilestoneMapper.java:41)
\tat com.example.relay.issues.IssueHandler.onEvent(IssueHandler.java:104)
\t... 14 more"""

_SQL = """org.springframework.dao.DataIntegrityViolationException: could not execute statement
\tat org.springframework.orm.jpa.vendor.HibernateJpaDialect.convertHibernateError(HibernateJpaDialect.java:290)
\tat com.example.billing.refunds.RefundService.book(RefundService.java:77)
\tat com.example.billing.refunds.RefundListener.onMessage(RefundListener.java:33)
\tat org.apache.activemq.artemis.jms.client.JMSMessageListenerWrapper.onMessage(JMSMessageListenerWrapper.java:110)
\tat java.base/java.lang.Thread.run(Thread.java:1583)
Caused by: org.postgresql.util.PSQLException: ERROR: duplicate key value violates unique constraint "refund_once"
\tat org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2733)
\tat org.postgresql.jdbc.PgPreparedStatement.executeUpdate(PgPreparedStatement.java:155)
\tat com.example.billing.refunds.RefundRepository.insert(RefundRepository.java:58)
\t... 21 more"""

_DOTNET = """System.FormatException: The input string '12.5O' was not in a correct format.
   at System.Number.ThrowFormatException[TChar](ReadOnlySpan`1 value)
   at System.Decimal.Parse(String s, IFormatProvider provider)
   at Billing.Orders.OrderTotals.Parse(String raw) in /src/Billing/Orders/OrderTotals.cs:line 29
   at Billing.Orders.OrderConsumer.<Consume>d__4.MoveNext() in /src/Billing/Orders/OrderConsumer.cs:line 51
   at MassTransit.DependencyInjection.ScopeConsumerFactory`1.Send[TMessage](ConsumeContext`1 context)"""

_NODE = """TypeError: Cannot read properties of undefined (reading 'warehouse')
    at resolveBin (/app/dist/stock/bins.js:41:27)
    at async StockHandler.apply (/app/dist/stock/handler.js:88:5)
    at async /app/node_modules/amqplib-retry/lib/consume.js:19:7
    at async process.processTicksAndRejections (node:internal/process/task_queues:95:5)"""

STACKS = {
    "pydantic": Stack(
        "pydantic_core.ValidationError",
        "1 validation error for PullRequestEvent: pull_request.merged_at should be a valid datetime",
        _PYDANTIC,
        status_code=422,
        response=b'{"detail":[{"loc":["pull_request","merged_at"],"msg":"Input should be a valid datetime"}]}',
    ),
    "java_null": Stack(
        "com.example.relay.issues.IssueRejectedException",
        'Issue event {n} could not be applied: Cannot invoke "Milestone.getDueOn()"',
        _JAVA,
        "java.lang.NullPointerException",
        status_code=500,
    ),
    "sql": Stack(
        "org.springframework.dao.DataIntegrityViolationException",
        'could not execute statement; duplicate key violates unique constraint "refund_once", key (refund_id)=({n})',
        _SQL,
        "org.postgresql.util.PSQLException",
        status_code=500,
    ),
    "dotnet": Stack(
        "System.FormatException", "The input string '12.5O' was not in a correct format.", _DOTNET, status_code=500
    ),
    "node": Stack("TypeError", "Cannot read properties of undefined (reading 'warehouse')", _NODE, status_code=500),
    "timeout": Stack("HttpTimeout", "No answer within 10000 ms"),
    "http_503": Stack(
        "HttpStatusError",
        "503 Service Unavailable",
        status_code=503,
        response=b"<html><body><h1>503 Service Unavailable</h1><script>alert(1)</script></body></html>",
    ),
}
