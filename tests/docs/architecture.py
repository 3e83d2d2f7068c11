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
PACKAGES = "six tiers"
ROLES = "inside every feature"
WORKERS = "workers is layered"

INTRODUCTION = """\
# Architecture

`python -m tests.docs.architecture > docs/develop/architecture.md` writes this page.
Change the import contracts in `pyproject.toml`, or the texts in `tests/docs/architecture.py`.

The code is cut into tiers, features and roles.
A *feature* is a folder in `poisonadmin/`; it holds everything about one subject.
A *tier* is a group of features that stand at one height: it imports the tiers below it.
A *role* is a file or a folder with the same name in every feature.
Decisions [34](decisions/0034-features-with-roles.md) and [60](decisions/0060-six-tiers.md) give the reasons.

## What may import what

An arrow means "may import".
Arrows add up: a box may import everything below it.
"""

PICTURE = """\
Features in one box may import one another, as long as nothing goes in circles.
The `domain` of a feature is open to everybody.
"""

ROLE_TEXTS = {
    "domain": "Rules as pure functions and values: standard library only, no clock, no random numbers, no I/O",
    "queries": "Reads from the database; changes nothing",
    "commands": "Writes to the database, with their permission checks; knows nothing of HTTP",
    "channels": "Ways in which alerts are sent: one module a channel",
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
    Hop("workers/delivery/http/exchange.py", "HttpSender", "sends the request and reads the answer"),
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

    >>> _short("poisonadmin.intake "), _short(" web")
    ('intake', 'web')
    """
    return module.strip().removeprefix("poisonadmin.")


def tiers() -> dict[str, list[list[str]]]:
    """Return the layers of each tier, from the top; the contract in pyproject.toml names a tier in a comment."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = text[text.index(f'name = "{PACKAGES}') :]
    lines = text[text.index("layers = [") : text.index("\n]")].splitlines()[1:]
    found: dict[str, list[list[str]]] = {}
    for line in map(str.strip, lines):
        if line.startswith("# "):
            found[line.removeprefix("# ")] = []
        elif found:
            found[next(reversed(found))].append([_short(part) for part in re.split(r"[:|]", line.strip('",'))])
    return found


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
            "A large feature has *parts* besides, which are cut into roles in turn, such as `decisions/operations`.",
            "",
            "| role | holds |",
            "|---|---|",
            *(f"| `{role}` | {ROLE_TEXTS[role]} |" for row in layers(ROLES) for role in row if role in ROLE_TEXTS),
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
    """Return the picture in Mermaid's language: the tiers with their features, and the layers of the workers."""
    above = [layer for layer in layers(PACKAGES) if not any(layer in each for each in tiers().values())]
    names = [_name([tier.partition(":")[0]], "tier_") for tier in tiers()]
    return "\n".join(
        [
            "flowchart TB",
            *(f"    {line}" for line in _chain(above)),
            *(line for name, tier in zip(names, tiers(), strict=True) for line in _tier(name, tier)),
            f"    {_name(above[-1])} --> {names[0]}",
            *(f"    {upper} --> {lower}" for upper, lower in pairwise(names)),
            '    subgraph workers["workers"]',
            *(f"        {line}" for line in _chain(layers(WORKERS), prefix="workers_")),
            "    end",
            f'    workers_tasks -->|"commands and queries"| {names[0]}',
            f'    workers_delivery -.->|"domain only"| {names[0]}',
            '    guard["poisonguard: imports none of the others"]',
        ]
    )


def _tier(name: str, title: str) -> list[str]:
    return [f'    subgraph {name}["{title}"]', *(f"        {line}" for line in _chain(tiers()[title])), "    end"]


def _chain(each: list[list[str]], *, prefix: str = "") -> list[str]:
    """Return the boxes of the layers, and an arrow from each to the next one."""
    boxes = [f'{_name(layer, prefix)}["{", ".join(layer)}"]' for layer in each]
    return [*boxes, *(f"{above} --> {below}" for above, below in pairwise(_name(layer, prefix) for layer in each))]


def _name(layer: list[str], prefix: str = "") -> str:
    return prefix + re.sub(r"\W+", "_", layer[0])


if __name__ == "__main__":
    sys.stdout.write(page())
