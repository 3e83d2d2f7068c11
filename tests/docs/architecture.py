"""Writes the page about the architecture: `python -m tests.docs.architecture > docs/develop/architecture.md`.

The picture and the rules are printed from the import contracts in pyproject.toml, which `make check` holds the code to.
"""

import re
import sys
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "what is above the features"
ROLES = "inside every feature"
COMMANDS = "commands import other features' commands"
WORKERS = "workers is layered"

INTRODUCTION = """\
# Architecture

`python -m tests.docs.architecture > docs/develop/architecture.md` writes this page.
Change the import contracts in `pyproject.toml`, or the texts in `tests/docs/architecture.py`.

The code is cut into features, and each feature into roles.
A *feature* is a folder in `poisonadmin/`; it holds everything about one subject.
A *role* is a file or a folder with the same name in every feature.
[Decision 34](decisions/0034-features-with-roles.md) gives the reasons.

## What may import what

An arrow means "may import".
Arrows add up: a box may import everything below it.
"""

PICTURE = """\
Solid arrows between features hold for their `commands`.
The `domain` of a feature is open to everybody, and its `queries` to every role above `domain`.
"""

ROLE_TEXTS = {
    "domain": "Rules as pure functions and values: standard library only, no clock, no random numbers, no I/O",
    "queries": "Reads from the database; changes nothing",
    "commands": "Writes to the database, with their permission checks; knows nothing of HTTP",
    "channels": "Ways in which alerts are sent: one folder a channel",
    "api": "The REST endpoints: check the permission, validate, call one command or query, answer",
    "pages": "The dashboard's views and forms; the templates are in `templates/<feature>/`",
}

CONTRACTS = """\
## What `make check` refuses

These are the import contracts; a change that breaks one fails the check:
"""

WAY = """\
## A message's way through the files

One message comes in, fails at its HTTP destination until its attempts are used up, and is approved by a person.
"""


@dataclass(frozen=True)
class Hop:
    """A step of a message's way: `name` is a function, or a method as `Class.method`, in `file`."""

    file: str
    name: str
    what: str


HOPS = (
    Hop("poisonadmin/desk/api/messages.py", "MessageList.post", "reads `POST /api/v1/messages/`"),
    Hop("poisonadmin/intake/commands/accept.py", "accept", "stores the message as TBDL, due now"),
    Hop("workers/spark_tasks.py", "redeliver_tick", "runs in the worker `spark-redelivery`, one after the other"),
    Hop("workers/dispatcher.py", "Dispatcher.run_for", "is woken, claims, and has a Spark task for each shard"),
    Hop("poisonadmin/delivery/commands/claim.py", "claim_due", "moves what is due to DLNG, in shards"),
    Hop("workers/delivery/task.py", "serve", "takes shards as they come, in a Spark task that stays"),
    Hop("workers/delivery/shard.py", "deliver_shard", "reads the messages, applies the rules, delivers"),
    Hop("workers/delivery/http/sender.py", "HttpSender", "sends the request and reads the answer"),
    Hop("workers/delivery/node.py", "NodeSession.record", "writes the outcome as an attempt"),
    Hop("poisonadmin/delivery/commands/settle.py", "settle", "moves what has an outcome out of DLNG"),
    Hop("poisonadmin/policies/domain/retry_decision.py", "on_failure", "decides: wait, move, give up or NDLV"),
    Hop("poisonadmin/decisions/commands/decisions.py", "decide", "moves an NDLV message back to TBDL, due now"),
)


def contracts() -> list[dict[str, object]]:
    """Return the import contracts of pyproject.toml, in their order."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = settings["tool"]["importlinter"]["contracts"]
    return found


def layers(name: str) -> list[list[str]]:
    """Return the layers of the contract whose name begins so, from the top, as short names of their modules."""
    [contract] = [one for one in contracts() if str(one["name"]).startswith(name)]
    texts = contract["layers"]
    assert isinstance(texts, list)
    return [[_short(part) for part in re.split(r"[:|]", text.replace("(", "").replace(")", ""))] for text in texts]


def _short(module: str) -> str:
    """Return a module's name as the picture has it.

    >>> _short("poisonadmin.intake.commands "), _short("poisonadmin.messages.commands.poison_entries"), _short(" web")
    ('intake', 'poison_list: entries', 'web')
    """
    name = module.strip().removeprefix("poisonadmin.")
    feature, _, inside = name.partition(".commands")
    return f"{feature}: {inside[1:]}" if inside else feature


def page() -> str:
    """Return docs/develop/architecture.md."""
    return "\n".join(
        [
            INTRODUCTION,
            "```mermaid",
            mermaid(),
            "```",
            "",
            PICTURE,
            "## The roles",
            "",
            "A role may import the roles below it in its own feature.",
            "`api` and `pages` do not import each other.",
            "",
            "| role | holds |",
            "|---|---|",
            *(f"| `{role}` | {ROLE_TEXTS[role]} |" for row in layers(ROLES) for role in row),
            "",
            CONTRACTS,
            *(f"- {contract['name']}" for contract in contracts()),
            "",
            WAY,
            *(f"{number}. `{hop.file}`, `{hop.name}`: {hop.what}." for number, hop in enumerate(HOPS, 1)),
            "",
        ]
    )


def mermaid() -> str:
    """Return the picture in Mermaid's language: the layers of the two packages, and the order of the commands."""
    packages = [["features"] if "messages" in layer else layer for layer in layers(PACKAGES)]
    [features] = [layer for layer in layers(PACKAGES) if "messages" in layer]
    commands = [layer for layer in layers(COMMANDS) if layer != ["core"]]
    read_only = sorted(set(features) - {name.partition(":")[0] for layer in commands for name in layer})
    return "\n".join(
        [
            "flowchart TB",
            '    subgraph features["features, in the order of their commands"]',
            *(f"        {line}" for line in [*_chain(commands), *(_box([name]) for name in read_only)]),
            "    end",
            '    subgraph workers["workers"]',
            *(f"        {line}" for line in _chain(layers(WORKERS), prefix="workers_")),
            "    end",
            *(f"    {line}" for line in _chain(packages)),
            '    workers_tasks -->|"commands and queries"| features',
            '    workers_delivery -.->|"domain only"| features',
            '    guard["poisonguard: imports none of the others"]',
        ]
    )


def _chain(each: list[list[str]], *, prefix: str = "") -> list[str]:
    """Return the boxes of the layers, and an arrow from each to the next one."""
    boxes = [_box(layer, prefix) for layer in each if layer != ["features"]]
    names = [_name(layer, prefix) for layer in each]
    return [*boxes, *(f"{above} --> {below}" for above, below in pairwise(names))]


def _name(layer: list[str], prefix: str = "") -> str:
    return prefix + re.sub(r"\W+", "_", layer[0])


def _box(layer: list[str], prefix: str = "") -> str:
    """Return a box with the layer's modules; a feature of which only some modules are meant is named once.

    >>> _box(["poison_list: consumers", "poison_list: reports"])
    'poison_list_consumers["poison_list: consumers, reports"]'
    """
    feature = layer[0].partition(": ")[0]
    return f'{_name(layer, prefix)}["{", ".join(layer).replace(f", {feature}: ", ", ")}"]'


if __name__ == "__main__":
    sys.stdout.write(page())
