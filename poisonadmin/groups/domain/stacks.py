"""Reading stack traces of Python, Java, .NET and JavaScript: the root cause, and the first frame that is ours.

*Ours* means neither the language's library nor a framework's: the place that whoever repairs it will open.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

MAX_STACK_CHARS = 64 * 1024
MAX_STACK_LINES = 5000
MAX_FRAME_CHARS = 300

_PYTHON_FRAME = re.compile(r'\s*File "(?P<file>[^"]++)", line \d++(?:, in (?P<function>.++))?')
_JAVA_FRAME = re.compile(
    r"\s*at (?P<method>[^\s()]++)"
    r"\((?:[^\s():]{1,200}\.(?:java|kt|kts|scala|groovy|clj)(?::\d++)?"
    r"|SourceFile(?::\d++)?|Native Method|Unknown Source|<generated>)\)"
)
_JAVASCRIPT_FRAME = re.compile(
    r"\s*at (?:async )?"
    r"(?:(?P<function>[^()]{1,300}) \((?P<file>[^()]{1,1000}):\d++:\d++\)|(?P<bare>[^\s()]{1,1000}):\d++:\d++)"
)
_DOTNET_FRAME = re.compile(r"\s*at (?P<method>[^\s()]++)\(")

_PYTHON_ERROR = re.compile(r"(?P<cls>[A-Za-z_][\w.]*+)(?::|$)")
# Only at the margin: a suppressed exception has causes of its own, which are set in.
_JAVA_CAUSE = re.compile(r"Caused by: (?P<cls>[A-Za-z_][\w.$]*+)")
_HEADING = re.compile(
    r"\s*(?:Exception in thread \"[^\"]*+\" |Unhandled exception\. |Uncaught )?(?P<cls>[A-Za-z_][\w.$]*+)(?::|$)"
)
_DOTNET_INNER = re.compile(r".*---> (?:\(Inner Exception #\d++\) )?(?P<cls>[A-Za-z_][\w.`+]*+)")
_JAVASCRIPT_CAUSE = re.compile(r"\s*\[cause\]: (?P<cls>[A-Za-z_][\w.$]*+)")

_PYTHON_LIBRARY = re.compile(
    r"site-packages[/\\]|dist-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|[/\\]Lib[/\\]"
    r"|[/\\]workers[/\\]delivery[/\\]handler[/\\]sandbox[/\\]|^<"  # what calls a handler
)
_JAVA_LIBRARY = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|jakarta|kotlin|kotlinx|scala|groovy|clojure|akka|reactor|rx|io\.reactivex|lombok"
    r"|org\.(?:springframework|apache|hibernate|jboss|eclipse|codehaus|postgresql|slf4j|junit|aspectj|wildfly|glassfish|"
    r"mariadb|mongodb|w3c|xml|omg)"
    r"|com\.(?:fasterxml|zaxxer|rabbitmq|mysql|google\.common|google\.gson|microsoft|ibm\.(?:mq|ws|ejs|msg))"
    r"|io\.(?:netty|quarkus|micronaut|vertx|smallrye|grpc|micrometer|opentelemetry)"
    r"|oracle|feign|okhttp3|okio|retrofit2|net\.bytebuddy|ch\.qos|brave)\."
)
_JAVA_GENERATED = re.compile(r"\$\$|\$Proxy\d")
_JAVA_MODULE = re.compile(r"(?:[\w.@\-]*+/)+")
_DOTNET_LIBRARY = re.compile(
    r"(?:System|Microsoft|NServiceBus|MassTransit|Wolverine|Rebus|Newtonsoft|Npgsql|RabbitMQ|Confluent|Castle|AutoMapper"
    r"|Polly|MediatR|FluentValidation|Dapper|Azure|Amazon|Autofac|Serilog|MongoDB|StackExchange|Grpc|Quartz|Hangfire)\."
    r"|lambda_method"
)
_JAVASCRIPT_LIBRARY = re.compile(r"node_modules[/\\]|^node:|^internal[/\\]|^native$|^<|^\(")

_PYTHON_CAUSE_OF = "The above exception was the direct cause of the following exception:"
_PYTHON_CONTEXT_OF = "During handling of the above exception, another exception occurred:"


@dataclass(frozen=True)
class _Dialect:
    """The form of a frame in one language; `normalised` is None for a frame that is not ours."""

    frame: re.Pattern[str]
    normalised: Callable[[re.Match[str]], str | None]


def first_application_frame(stack: str) -> str | None:
    """Return the frame of the application nearest to the root cause, without line numbers; None when there is none.

    Of `stack` only the first 64 KiB count. Files keep their last two parts, since where a program is installed and on
    which line a function stands change without the failure changing.

    >>> first_application_frame('''Traceback (most recent call last):
    ...   File "/srv/shop/orders/handler.py", line 12, in handle
    ...     total = Decimal(order["total"])
    ...   File "/usr/lib/python3.11/decimal.py", line 99, in __new__
    ... decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]''')
    'orders/handler.py:handle'
    """
    return next(_application_frames(stack), None)


def application_frames(stack: str, *, most: int) -> list[str]:
    """Return at most so many frames of the application, the one nearest to the root cause first, each once.

    They are written as `first_application_frame` writes them.
    """
    return list(islice(dict.fromkeys(_application_frames(stack)), most))


def root_cause_class(stack: str) -> str | None:
    """Return the class of the innermost cause that the trace names; None when it names no cause.

    >>> root_cause_class("a.Wrapper: no\\n\\tat a.B.c(B.java:1)\\nCaused by: java.io.IOException: disk\\n\\t... 9 more")
    'java.io.IOException'
    """
    lines = _lines(stack)
    for cause in (_JAVA_CAUSE, _DOTNET_INNER, _JAVASCRIPT_CAUSE):
        named = [found["cls"] for line in lines if (found := cause.match(line))]
        if named:
            return named[-1]
    blocks = _python_blocks(lines)
    return _python_error(blocks[0]) if len(blocks) > 1 else None


def thrown_class(stack: str) -> str | None:
    """Return the class of the exception that the trace is of; None when the text does not name one.

    >>> thrown_class("TypeError: x is undefined\\n    at handle (/srv/app/orders.js:3:7)")
    'TypeError'
    """
    lines = _lines(stack)
    if any(_PYTHON_FRAME.match(line) for line in lines):
        return _python_error(_python_blocks(lines)[-1])
    heading = _HEADING.match(lines[0]) if lines else None
    return heading["cls"] if heading else None


def _application_frames(stack: str) -> Iterator[str]:
    for block in _blocks_from_the_root(_lines(stack)):
        for line in block:
            frame = _application_frame(line)
            if frame is not None:
                yield frame[:MAX_FRAME_CHARS]


def _lines(stack: str) -> list[str]:
    return stack[:MAX_STACK_CHARS].splitlines()[:MAX_STACK_LINES]


def _blocks_from_the_root(lines: list[str]) -> Sequence[Sequence[str]]:
    if any(_PYTHON_FRAME.match(line) for line in lines):
        # Python prints the innermost call last, the others first.
        return [tuple(reversed(block)) for block in _python_blocks(lines)]
    starts = [at for at, line in enumerate(lines) if _JAVA_CAUSE.match(line) or _JAVASCRIPT_CAUSE.match(line)]
    edges = [0, *starts, len(lines)]
    # .NET has no such edges and prints the inner frames first: one block, already in the right order.
    return [lines[start:end] for start, end in pairwise(edges)][::-1]


def _python_blocks(lines: Sequence[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == _PYTHON_CONTEXT_OF:
            # What was being handled is not the cause: only what follows, and what that names as its cause, counts.
            blocks = [[]]
        elif line.strip() == _PYTHON_CAUSE_OF:
            blocks.append([])
        else:
            blocks[-1].append(line)
    return blocks


def _python_error(block: Sequence[str]) -> str | None:
    after_frames = False
    for line in block:
        if line.startswith((" ", "Traceback")):
            after_frames = True
        elif after_frames and (found := _PYTHON_ERROR.match(line)):
            return found["cls"]
    return None


def _application_frame(line: str) -> str | None:
    for dialect in _DIALECTS:
        found = dialect.frame.match(line)
        if found:
            return dialect.normalised(found)
    return None


def _python(found: re.Match[str]) -> str | None:
    if _PYTHON_LIBRARY.search(found["file"]):
        return None
    return f"{_short_path(found['file'])}:{found['function'] or '<module>'}"


def _java(found: re.Match[str]) -> str | None:
    method = _JAVA_MODULE.sub("", found["method"], count=1)
    if _JAVA_LIBRARY.match(method) or _JAVA_GENERATED.search(method):
        return None
    return re.sub(r"\$\d+", "", method)


def _javascript(found: re.Match[str]) -> str | None:
    file = (found["file"] or found["bare"]).removeprefix("file://")
    if _JAVASCRIPT_LIBRARY.search(file):
        return None
    return f"{_short_path(file)}:{found['function'] or '<anonymous>'}"


def _dotnet(found: re.Match[str]) -> str | None:
    method = found["method"]
    if _DOTNET_LIBRARY.match(method):
        return None
    # Compilers number what they make of async methods and lambdas.
    method = re.sub(r"<>c(?:__DisplayClass\d+_\d+)?\.", "", method)
    method = re.sub(r"<(\w+)>[a-z]__\w+(?:\.MoveNext)?", r"\1", method)
    return re.sub(r"`\d+|\[[^\]]*\]", "", method)


def _short_path(path: str) -> str:
    parts = [part for part in re.split(r"[/\\]", path) if part]
    # Bundlers put a hash of the content into the name.
    return re.sub(r"[.\-](?=[a-f]*\d)[0-9a-f]{6,}(?=\.)", "", "/".join(parts[-2:]))


# Java before JavaScript before .NET: each later form also fits lines of the earlier ones.
_DIALECTS = (
    _Dialect(_PYTHON_FRAME, _python),
    _Dialect(_JAVA_FRAME, _java),
    _Dialect(_JAVASCRIPT_FRAME, _javascript),
    _Dialect(_DOTNET_FRAME, _dotnet),
)
