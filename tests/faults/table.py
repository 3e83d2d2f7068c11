"""The table that the campaign prints, a line a run."""

from tests.faults.run import Result

_FORM = "{:<5} {:<24} {:>5} {:>8} {:>4} {:>4} {:>5} {:>7} {:>6}  {:<7} {}"
_HEADING = ("", "fault", "seed", "messages", "dup", "lost", "stuck", "accused", "back s", "verdict", "moment")


def rule() -> str:
    """Return the heading.

    `dup`: messages that a consumer took more than once, each explained by its history; `back s`: seconds from the end
    of the fault until the rate was what it had been.
    """
    return _FORM.format(*_HEADING)


def line(result: Result) -> str:
    """Return the run's line, and below it what was wrong."""
    shown = _FORM.format(
        result.family,
        result.fault,
        result.seed,
        result.messages,
        result.duplicates,
        result.lost,
        result.stuck,
        result.accused,
        f"{result.back_seconds:.1f}",
        result.verdict,
        result.moment,
    )
    return "\n".join([shown, *(f"      {what}" for what in result.wrong)])
