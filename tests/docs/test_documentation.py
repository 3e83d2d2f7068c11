"""What users can set, and what they are told, must agree."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READ_FROM_OUTSIDE = re.compile(
    r"\"((?:POISONADMIN_[A-Z_]+|DATABASE_URL|REDIS_URL|SPARK_MASTER|SPARK_REMOTE|JAVA_HOME|PYSPARK_PYTHON))\""
)


def test_every_environment_variable_is_documented_and_every_documented_one_is_read() -> None:
    sources = [path for folder in ("poisonadmin", "workers", "sample") for path in (ROOT / folder).rglob("*.py")]
    read = {name for path in sources for name in READ_FROM_OUTSIDE.findall(path.read_text())}
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE))
    assert read == documented


def test_links_between_documents_lead_somewhere() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert not broken
