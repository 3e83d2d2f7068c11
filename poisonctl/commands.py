"""The commands.

Each exits with 0 when it did what it says, 1 when there are differences or members failed, 2 when it was called
wrongly, 3 when PoisonAdmin refused, 4 when it did not answer, and 5 when the time to wait was over.
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

from poisonctl.api import Api, RequestFailed, environment
from poisonctl.document import InvalidDocument, read_document, write_document

DIFFERENT, WRONG, TOO_LATE = 1, 2, 5
# Without `halted`, which waits for a person.
GOES_ON = ("running", "paused", "cancelling", "waiting_for_sign_off", "waiting_for_version")
NOT_DONE = ("failed_same", "failed_new", "blacklisted", "skipped")
POLL_SECONDS = 1.0
as_json = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print.")
many = click.option(
    "-n", "--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="At most so many."
)


def main() -> None:
    """Run the command of `sys.argv`."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `groups | head` wants no more
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(WRONG)
    except (InvalidDocument, UnicodeDecodeError) as error:
        click.echo(f"Error: {_plain(str(error))}", err=True)
        sys.exit(WRONG)
    except RequestFailed as error:
        click.echo(f"Error: {_plain(str(error))}", err=True)
        sys.exit(error.status)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def cli(context: click.Context) -> None:
    """Decide on failed messages, and keep PoisonAdmin's configuration as code.

    POISONADMIN_URL says where it is, POISONADMIN_TOKEN or POISONADMIN_TOKEN_FILE who asks.
    """
    context.obj = _WhenAsked()


class _WhenAsked:
    """The API, looked up at the first request: `--help` and completion need none."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Api.of(environment()), name)


def _print(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], output: str) -> None:
    """Print rows: as JSON, one object a line, or as a table of these columns."""
    if output == "json":
        for row in rows:
            click.echo(_json(row))
        return
    cells = [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max([len(name), *(len(row[place]) for row in cells)]) for place, name in enumerate(columns)]
    for line in ([name.upper() for name in columns], *cells):
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    r"""Return a value in one line: text of messages may hold what moves a terminal's cursor.

    >>> _cell({"NDLV": 3, "FAIL": 0}), _cell(["a", "b"]), _cell("a\x1b[2J\nb"), _cell(None)
    ('NDLV=3', 'a, b', 'a?[2J?b', '')
    """
    if isinstance(value, Mapping):
        value = " ".join(f"{name}={one}" for name, one in value.items() if one not in (None, 0, "", [], {}))
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return _plain("" if value is None else str(value)).replace("\n", "?")[:100]


def _plain(text: str) -> str:
    """Return a text without what moves a terminal's cursor, but for the ends of lines."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _json(value: Any) -> str:
    """Return a value as JSON in one line; for a terminal without what moves its cursor."""
    return json.dumps(value, ensure_ascii=sys.stdout.isatty())


@cli.command()
@many
@as_json
@click.pass_obj
def groups(api: Api, limit: int, output: str) -> None:
    """List failure groups, those with most messages that wait for a decision first."""
    _print(api.pages("groups/", {"ordering": "-undecided"}, limit), ("id", "counts", "title", "addresses"), output)


@cli.command()
@click.argument("message_id", type=int)
@as_json
@click.pass_obj
def show(api: Api, message_id: int, output: str) -> None:
    """Show a message by its id here, with its history."""
    found = api.get(f"messages/{message_id}/")
    found["history"] = list(api.pages(f"messages/{message_id}/history/", {}, 200))
    if output == "json":
        click.echo(_json(found))
        return
    history = found.pop("history")
    for name, value in found.items():
        if value not in (None, "", [], {}):
            click.echo(f"{name}: {_cell(value)}")
    click.echo()
    _print(history, ("at", "event", "from_state", "to_state", "attempt_number", "actor", "note"), "text")


MESSAGE = ("id", "state", "address", "message_id", "failed_at", "group_title")


@cli.command()
@click.argument("words", nargs=-1, required=True)
@many
@as_json
@click.pass_obj
def search(api: Api, words: tuple[str, ...], limit: int, output: str) -> None:
    """List the messages that match words of the search box, such as address:orders.# state:NDLV."""
    _print(api.pages("messages/", {"q": " ".join(words)}, limit), MESSAGE, output)


@cli.command()
@click.option("-q", "--words", default="state:NDLV", show_default=True, help="Words of the search box.")
@click.option("--every", type=click.FloatRange(0.2), default=2.0, show_default=True, help="Seconds between looks.")
@as_json
@click.pass_obj
def tail(api: Api, words: str, every: float, output: str) -> None:
    """Print messages as they come to match, until it is interrupted."""
    seen: set[str] = {row["id"] for row in api.pages("messages/", {"q": words}, 200)}
    while True:
        new = [row for row in api.pages("messages/", {"q": words}, 200) if row["id"] not in seen]
        for row in reversed(new):
            seen.add(row["id"])
            in_words = "  ".join(_cell(row[name]) for name in MESSAGE)
            click.echo(_json(row) if output == "json" else in_words)
        time.sleep(every)


def _decision(action: str, about: str) -> Callable[..., None]:
    """Return the command that begins an operation."""

    @cli.command(name=action, help=about)
    @click.option("-f", "--filter", "filters", multiple=True, metavar="NAME=VALUE", help="A parameter of the list.")
    @click.option("-q", "--words", help="Words of the search box.")
    @click.option("--group", help="Messages of this failure group.")
    @click.option("--reason", required=True, help="Why; it stays with every message.")
    @click.option("--dry-run", is_flag=True, help="Say what would become of them, and do nothing.")
    @click.option("--canary", is_flag=True, help="Try 1 message, then 10, then 100 before all others.")
    @click.option("--rate", type=float, help="At most so many a second.")
    @click.option("--wait", is_flag=True, help="Return when it is over; exit with 1 when members failed.")
    @click.option("--wait-seconds", type=float, default=3600, show_default=True, help="Wait no longer than this.")
    @as_json
    @click.pass_obj
    def decide(api: Api, /, **given: Any) -> None:
        wanted = _filter(given["filters"], given["words"], given["group"])
        asked = {
            "selection": {"filter": wanted},
            "action": action,
            "reason": given["reason"],
            "canary": given["canary"],
        }
        asked |= {"dry_run": True} if given["dry_run"] else {}
        asked |= {"rate_per_second": given["rate"]} if given["rate"] else {}
        answer = api.post("operations/", asked)
        if given["dry_run"]:
            _tell(answer, ("count", "accepted", "refused", "targets", "needs_sign_off", "duration"), given["output"])
            return
        if given["wait"]:
            answer = _until_over(api, answer, given["wait_seconds"])
        _tell(answer, ("id", "state", "count", "done", "ledger", "halted_why"), given["output"])
        if given["wait"]:
            if answer["state"] in GOES_ON:
                sys.exit(TOO_LATE)
            if answer["state"] != "completed" or any(answer["ledger"].get(one) for one in NOT_DONE):
                sys.exit(DIFFERENT)

    return decide


def _filter(pairs: Sequence[str], words: str | None, group: str | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"{pair!r} is no NAME=VALUE.")
        found.setdefault(name, []).append(value)
    if words:
        found["q"] = [words]
    if group:
        found["group"] = [group]
    if not found:
        raise click.UsageError("Say which messages: --filter, --words or --group.")
    return found


def _until_over(api: Api, operation: Any, seconds: float) -> Any:
    until = time.monotonic() + seconds
    while operation["state"] in GOES_ON and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
        operation = api.get(f"operations/{operation['id']}/")
    return operation


def _tell(found: Mapping[str, Any], names: Sequence[str], output: str) -> None:
    if output == "json":
        click.echo(_json(found))
        return
    for name in names:
        value = found.get(name)
        if isinstance(value, list):
            for one in value:
                click.echo(f"{name}: {_cell(one)}")
        elif value is not None:
            click.echo(f"{name}: {_cell(value)}")


approve = _decision("approve", "Approve: messages are delivered again.")
fail = _decision("fail", "Mark as FAIL: messages are given up.")
restore = _decision("restore", "Restore: what was marked as FAIL waits for a decision again.")


@cli.command()
@click.argument("operation_id", type=int)
@click.option("--csv", is_flag=True, help="Every member, as CSV.")
@as_json
@click.pass_obj
def ledger(api: Api, operation_id: int, csv: bool, output: str) -> None:
    """Show what became of the members of an operation; its numbers sum to its count."""
    if csv:
        click.echo(api.raw("GET", f"operations/{operation_id}/members.csv"), nl=False)
        return
    names = ("id", "action", "state", "count", "done", "ledger", "reason")
    _tell(api.get(f"operations/{operation_id}/"), names, output)


@cli.command()
@click.argument("kind", default="failures")
@click.option("-q", "--words", help="Words of the search box.")
@click.option("--format", "written_as", default="csv", show_default=True, help="csv, ndjson, parquet, xlsx or json.")
@click.option("-O", "--file", type=click.File("wb", lazy=True), default="-", help="Where to write it.")
@click.pass_obj
def report(api: Api, kind: str, words: str | None, written_as: str, file: Any) -> None:
    """Make a report and write its file."""
    asked = {"kind": kind, "format": written_as, "filter": {"q": [words]} if words else {}}
    made = api.post("reports/", asked)
    if "rows" in made:  # few rows as JSON are in the answer
        file.write(json.dumps(made, ensure_ascii=False).encode() + b"\n")
        return
    while made["state"] in ("queued", "running", "cancelling"):
        time.sleep(POLL_SECONDS)
        made = api.get(f"reports/{made['id']}/")
    if made["state"] != "succeeded":
        click.echo(f"Error: {made['error'] or made['state']}", err=True)
        sys.exit(DIFFERENT)
    file.write(api.raw("GET", f"reports/{made['id']}/download/"))


@cli.group()
def config() -> None:
    """Export the configuration, see what differs from a file, and apply a file."""


@config.command()
@as_json
@click.pass_obj
def export(api: Api, output: str) -> None:
    """Print the configuration as YAML; secrets are references to variables of the environment."""
    document = api.get("configuration/")
    click.echo(_json(document) if output == "json" else write_document(document), nl=False)


prune = click.option("--prune", is_flag=True, help="Remove objects of the file's kinds that are not in it.")
to_file = click.argument("file", type=click.File("r", encoding="utf-8"))


@config.command()
@to_file
@prune
@as_json
@click.pass_obj
def diff(api: Api, file: Any, prune: bool, output: str) -> None:
    """Say what applying a file would change; exit with 1 when there is something."""
    _apply(api, file, output, is_check=True, prune=prune)


@config.command()
@to_file
@prune
@click.option("--check", is_flag=True, help="Change nothing; the same as diff.")
@click.option("--secrets", is_flag=True, help="Write secrets that are given to objects that are there, too.")
@as_json
@click.pass_obj
def apply(api: Api, file: Any, output: str, *, check: bool, prune: bool, secrets: bool) -> None:
    """Bring the configuration to what a file says, all of it or nothing."""
    _apply(api, file, output, is_check=check, prune=prune, secrets=secrets)


def _apply(api: Api, file: Any, output: str, **how: bool) -> None:
    document = read_document(file.read(), environment())
    found = api.post("configuration/", {"configuration": document, **how})
    if output == "json":
        click.echo(_json(found))
    for one in found["changes"] if output == "text" else ():
        click.echo(f"{one['change']:7} {_cell(one['object'])}")
        for name, (before, after) in one["fields"].items():
            click.echo(f"          {name}: {_cell(json.dumps(before))} -> {_cell(json.dumps(after))}")
    if output == "text" and not found["changes"]:
        click.echo("Nothing differs.")
    if how["is_check"] and found["changes"]:
        sys.exit(DIFFERENT)
