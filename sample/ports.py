"""Where the sample's consumers listen."""

from collections.abc import Mapping

CONSUMERS = ("healthy", "flaky", "rejecting")


def base_port(environment: Mapping[str, str]) -> int:
    """Return the first of the three ports: POISONADMIN_SAMPLE_PORT, else ten above the dashboard's."""
    if chosen := environment.get("POISONADMIN_SAMPLE_PORT"):
        return int(chosen)
    return int(environment.get("POISONADMIN_PORT") or 8000) + 10


def urls(base: int) -> dict[str, str]:
    """Return the URL of each consumer."""
    return {name: f"http://127.0.0.1:{base + offset}/{name}" for offset, name in enumerate(CONSUMERS)}
