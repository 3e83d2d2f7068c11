"""The place of the archive: a directory, or an object store that speaks S3's protocol."""

from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

ARCHIVE = "POISONADMIN_ARCHIVE"
_DEFAULT = "archive"
RUN = "run="
# The options of an S3 URL that pyarrow takes.
OPTIONS = (
    *("region", "endpoint_override", "scheme", "smart_defaults", "tls_ca_file_path", "tls_verify_certificates"),
    *("allow_bucket_creation", "allow_bucket_deletion", "allow_delayed_open"),
)


class UnusableArchive(ValueError):
    """Raised when POISONADMIN_ARCHIVE is neither an absolute directory nor an S3 URL with a bucket."""


def archive_place(environment: Mapping[str, str], home: Path) -> str:
    """Return the directory or URL of `POISONADMIN_ARCHIVE`; `archive` in the home by default.

    Errors: `UnusableArchive`.

    >>> archive_place({}, Path("/var/lib/poisonadmin"))
    '/var/lib/poisonadmin/archive'
    >>> archive_place({"POISONADMIN_ARCHIVE": "s3://bucket/poison/?region=eu-central-1"}, Path("/"))
    's3://bucket/poison/?region=eu-central-1'
    """
    text = environment.get(ARCHIVE, "").strip()
    if not text:
        return str(home / _DEFAULT)
    if "://" in text:
        parts = urlsplit(text)
        if parts.scheme != "s3" or not parts.hostname or parts.username or parts.password:
            raise UnusableArchive(f"{ARCHIVE} must be a directory or s3://bucket/path, without keys")
        for option, _ in parse_qsl(parts.query, keep_blank_values=True):
            if option not in OPTIONS:
                near = get_close_matches(option, OPTIONS, 1) or OPTIONS
                raise UnusableArchive(f"{ARCHIVE} has an option that is none; known: {', '.join(near)}")
        return text
    path = Path(text)
    if not path.is_absolute() or path == Path("/"):
        raise UnusableArchive(f"{ARCHIVE} must be an absolute directory or s3://bucket/path")
    return str(path)


def within(place: str, path: str) -> str:
    """Return the path or URL of a file in the archive; what a URL asks for stays at its end.

    >>> within("s3://bucket/poison/?region=eu-central-1", "run=1/a.parquet")
    's3://bucket/poison/run=1/a.parquet?region=eu-central-1'
    """
    before, asked = _divided(place)
    return f"{before.rstrip('/')}/{path}{asked}"


def place_and_path(file: str) -> tuple[str, str]:
    """Return the archive's place, and the path in it of a file that `within` names.

    >>> place_and_path("s3://bucket/poison/run=1/a%20b.parquet?region=eu-central-1")
    ('s3://bucket/poison?region=eu-central-1', 'run=1/a%20b.parquet')
    """
    before, asked = _divided(file)
    begin = max(before.rfind(RUN), 0)
    return before[:begin].rstrip("/") + asked, before[begin:]


def path_of(file: str) -> str:
    """Return the path within the archive of a file that `within` names.

    >>> path_of("/srv/archive/run=1/messages/day=2026-01-01/root=a/0-x.parquet")
    'run=1/messages/day=2026-01-01/root=a/0-x.parquet'
    """
    return place_and_path(file)[1]


def _divided(place: str) -> tuple[str, str]:
    """Return a URL without what it asks for, and that; a directory as it is."""
    before, mark, query = place.partition("?") if "://" in place else (place, "", "")
    return before, mark + query


def run_directory(run_id: int) -> str:
    """Return the directory of a run's files."""
    return f"{RUN}{run_id}"


def file_path(run_id: int, table: str, day: date, root: str, piece: str) -> str:
    """Return the path of a file; no two tries of a piece have one name.

    >>> file_path(3, "history", date(2026, 1, 31), "orders", "12-5f0c")
    'run=3/history/day=2026-01-31/root=orders/12-5f0c.parquet'
    """
    return f"{run_directory(run_id)}/{table}/day={day}/root={quote(root, safe='')}/{piece}.parquet"


def unfinished(path: str) -> str:
    """Return the name of a file on a disk until it is whole."""
    return f"{path}.part"


def manifest_path(run_id: int) -> str:
    """Return the path of a run's manifest."""
    return f"{run_directory(run_id)}/manifest.json"
