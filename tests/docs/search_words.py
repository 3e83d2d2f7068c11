"""Prints the table of search words in docs/use/search.md: `python -m tests.docs.search_words`."""

import django

COLUMNS = {"live": "messages", "index": "the archive's list", "files": "reports of archived messages"}


def table() -> str:
    """Return the words, what each takes, and where it can be used, as a table."""
    from poisonadmin.search.domain.words import WORDS
    from poisonadmin.search.queries.meanings import fields_known

    known = {dialect: fields_known(dialect) for dialect in COLUMNS}
    lines = [f"| word | takes | {' | '.join(COLUMNS.values())} | |", "|---" * (len(COLUMNS) + 3) + "|"]
    for word in WORDS:
        where = " | ".join("yes" if word.says in known[dialect] else "" for dialect in COLUMNS)
        lines.append(f"| `{word.shown}` | {word.kind.name} | {where} | {word.about} |")
    return "\n".join(line.replace("|  |", "| |").replace("|  |", "| |") for line in lines)


if __name__ == "__main__":
    django.setup()
    print(table())
