"""The words that this project does not use, what it says instead, and where one of them still stands."""

import ast
import html
import re
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("poisonadmin", "workers", "poisonguard", "poisonctl", "tests", "benchmarks", "sample")

# Whole words of a module's or a class's name, and what the name says instead.
OLD_NAMES = {
    "remains": "crash recovery, local journals",
    "lost page": "local journals",
    "lost pages": "local journals",
    "sandbox page": "journal",
    "outlook": "approval warning",
    "look": "broker check",
    "looks": "broker check",
    "prospects": "retry limits",
    "once more": "transaction retry",
    "keeper": "heartbeat",
    "pump": "dispatcher",
    "judge": "retry decision",
    "verdict": "retry decision",
    "verdicts": "retry decision",
    "outlet": "sender",
    "outlets": "sender",
    "turns": "scheduler",
    "waiting": "buffer",
    "chains": "ordered groups",
    "wake": "schedule",
    "floor": "schedule",
    "bring forward": "refresh the heads",
    "look again": "refresh the heads",
    "ledger": "transition log",
    "recorded": "transition log",
    "screening": "content filter",
    "ruling": "decision of the content filter",
    "rulings": "decision of the content filter",
    "book": "policy index",
    "home": "return address",
    "unfit": "invalid",
    "broken": "failed",
    "trouble": "error",
    "told": "reported",
    "said": "report",
    "word": "confirmation",
    "came to": "result",
    "deaths": "crash view",
    "story": "timeline",
    "lines": "formatter",
    "hostile": "sanitising",
    "gate": "require_permission, or what it holds back",
    "gates": "require_permission, or what it holds back",
    "ladder": "retry schedule",
    "rung": "retry schedule",
    "rungs": "retry schedule",
    "shop": "a fixture named for what it is",
    "scenery": "a fixture named for what it is",
    "rig": "a fixture named for what it is",
    "rigs": "a fixture named for what it is",
    "order": "ordered conversations",
    "counting": "counts, breakers or metrics",
    "counters": "counts, breakers or metrics",
    "stats": "counts, breakers or metrics",
    "gauges": "counts, breakers or metrics",
}
# Refused only as the whole name: as a part of one they have their everyday meaning.
WHOLE_NAMES = {"lines", "hostile", "order"}
# The same word with a meaning of its own: a word of the search box, the installation's directory, the ledger of a bulk
# operation, and the name that the API's document gave the counts.
OWN_MEANING = {
    "home": "poisonadmin/embedded",
    "ledger": "poisonadmin/decisions",
    "stats": "poisonadmin/desk/api",
    "word": "poisonadmin/search",
}

# What readers of pages and documents are not to meet, as regular expressions, and what they read instead.
OLD_PHRASES = {
    r"look(s|ed|ing)?\b(?! (like|alike|for|wrong)\b)": "check",
    r"outlooks?": "approval warning",
    r"remains of|lost pages?": "crash recovery, local journals",
    r"prospects?": "retry limits",
    r"verdicts?|judged?": "retry decision",
    r"outlets?": "sender",
    r"screening": "content filter",
    r"ladders?|rungs?": "retry schedule",
    r"(consumer|broker|producer)[’']s word|a word from|word of its": "confirmation",
    r"unanswered": "unconfirmed",
    r"brought along|came along": "before import",
    r"stamped by": "origin headers",
    r"(follows|goes on|again) by itself": "refreshes automatically, is retried automatically",
    r"came to|comes to|what became of|what becomes of": "result",
    r"that you may see": "in your scope",
    r"by what it is": "by its content",
    r"(unless|until|otherwise|nobody|was|were|is|are) said|said (openly|aloud|otherwise)": "default, reported",
    r"told": "reported",
    r"end of life": "an expiry",
    r"in coming": "time until",
    r"whoever": "users with this permission",
    r"unfit|broken|troubles?": "invalid, failed, error",
    r"keepers?|pumps?": "heartbeat, dispatcher",
    r"fare better|ground move": "can be retried",
    r"take steps until": "repeat until",
}


def words_of(name: str) -> str:
    """Return the words of a snake_case or CamelCase name, in lower case, with a space between them.

    >>> words_of("BrokerCheck"), words_of("retry_limits"), words_of("HTTPServer2")
    ('broker check', 'retry limits', 'http server 2')
    """
    return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)).lower()


def old_names(root: Path) -> list[str]:
    """Return `path: name says <old word>, say …` of each module, folder and class under `root` that has one."""
    found = [
        f"{path}: {name} says {word!r}; say {OLD_NAMES[word]!r}"
        for path, name in _names(root)
        for word in _old(path, name)
    ]
    return list(dict.fromkeys(found))


def _old(path: Path, name: str) -> Iterator[str]:
    words = words_of(name).removeprefix("test ")
    for word in OLD_NAMES:
        is_old = words == word if word in WHOLE_NAMES else f" {word} " in f" {words} "
        if is_old and not path.is_relative_to(OWN_MEANING.get(word, "nowhere")):
            yield word


def _names(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield (path below `root`, name) of folders, modules and classes; the tables' models keep their names."""
    for folder in ROOTS:
        for file in sorted((root / folder).rglob("*.py")):
            path = file.relative_to(root)
            if path.is_relative_to("poisonadmin/store"):
                continue
            yield from ((path, part) for part in path.with_suffix("").parts)
            yield from (
                (path, node.name) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
            )


# Words that no identifier, column or id of a template has, and what it says instead.
PRIVATE_WORDS = {
    "keeper": "heartbeat",
    "pump": "dispatcher",
    "look": "check",
    "ruling": "decision, content rule's action",
    "death": "crash",
    "ladder": "retry schedule",
    "rung": "step",
    "verdict": "retry decision",
    "came_to": "result",
    "told": "reported",
    "said": "report, or what the value holds",
    "outlook": "approval warning",
    "gate": "require_permission",
    "workshop": "what it holds",
    "scenery": "what it holds",
    "rig": "what it holds",
}
_PRIVATE = re.compile(rf"(?:^|_)(?:{'|'.join(PRIVATE_WORDS)})s?(?:_|$)")
_CLAUSE = re.compile(r"(What|Who|Whoever|Whose|How|Whether|By whom|Where)\b")
# Modules whose identifiers and docstrings are still to be gone through; the list only gets shorter.
TO_DO: tuple[str, ...] = (
    "poisonadmin/groups/domain/regroup_plan.py",
    "poisonadmin/rules/domain/content_rules.py",
    "poisonadmin/rules/domain/json_schema.py",
)


def private_words(source: str) -> list[str]:
    """Return the names in a module that have a private word: of functions, classes, parameters and variables.

    >>> private_words("def f(keeper): next_look_at = self.pumps = 1; overlook = keeper")
    ['keeper', 'next_look_at', 'pumps']
    """
    names = [name for node in ast.walk(ast.parse(source)) for name in _named(node)]
    return [name for name in names if _PRIVATE.search(words_of(name).replace(" ", "_"))]


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def private_ids(template: str) -> list[str]:
    """Return the ids, classes and names of data in a template that have a private word.

    >>> private_ids('<p id="t-ladder" data-look="1" class="card" hx-target="#looks">Look</p>')
    ['t-ladder', 'data-look', '#looks']
    """
    values = re.findall(r'\s(?:id|class|name|for|hx-target|aria-\w+)="([^"{]*)"|\s(data-[a-z-]+)', template)
    names = [name for pair in values for value in pair for name in value.split() if " " not in value or "#" in value]
    return [name for name in names if _PRIVATE.search(name.lstrip("#").replace("-", "_"))]


def clauses(source: str) -> list[str]:
    """Return the first lines of docstrings that begin with a clause in place of a noun or a verb.

    >>> clauses('"What is done."\\ndef f():\\n    "Do it."')
    ['What is done.']
    """
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    return [text.split("\n")[0] for text in found if _CLAUSE.match(text)]


def old_phrases(text: str) -> list[str]:
    """Return the old words and phrases in a text, as they stand there.

    >>> old_phrases("This page follows by itself."), old_phrases("Files that look like text")
    (['follows by itself'], [])
    """
    pattern = "|".join(OLD_PHRASES)
    return [match[0] for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE)]


def shown_by_template(source: str) -> str:
    """Return what a reader meets of a template: its text, and the attributes that are read out or shown.

    >>> shown_by_template('<p title="Wait">Go <b>on</b>{% if look %}, {{ look }}{% endif %}</p>').split()
    ['Go', 'on', ',', 'Wait']
    """
    source = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}|<script.*?</script>", " ", source, flags=re.DOTALL)
    attributes = re.findall(r'\s(?:aria-label|title|placeholder|alt)="([^"]*)"', source)
    return html.unescape("\n".join([re.sub(r"<[^>]*>", " ", source), *attributes]))


def shown_by_module(source: str) -> str:
    """Return the texts in a module of pages: its strings of more than one word, without docstrings.

    >>> shown_by_module('"A docstring here."\\nname = "look"\\ntext = "A worker waits"')
    'A worker waits'
    """
    tree = ast.parse(source)
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return "\n".join(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and " " in node.value
        and id(node) not in documentation
    )


def documents(root: Path) -> list[Path]:
    """Return what is written for people: the pages in docs/ and those beside the code."""
    beside = ("README.md", "CONTRIBUTING.md", "sample/README.md", "poisonguard/README.md", "poisonctl/README.md")
    return [*(root / page for page in beside), *sorted((root / "docs").rglob("*.md"))]


def prose(markdown: str) -> str:
    """Return a document without its code, its pictures and the targets of its links.

    >>> prose("See `GET /looks/` and [the list](look.md).")
    'See  and [the list].'
    """
    without_code = re.sub(r"^ *```.*?^ *```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`|(?<=\])\([^)]*\)", "", without_code)
