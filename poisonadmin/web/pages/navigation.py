"""What the side bar leads to: only pages that exist, and only those that the reader may open."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal


@dataclass(frozen=True)
class Entry:
    """`key` is the letter that follows `g` on the keyboard."""

    name: str
    route: str
    icon: str
    key: str
    permission: Permission = Permission.READ


SECTIONS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "Triage",
        (
            Entry("Overview", "overview", "home", "o"),
            Entry("Blacklist", "blacklist", "bolt", "b"),
            Entry("Messages", "messages", "mail", "m"),
            Entry("Failure groups", "groups", "layers", "g"),
            Entry("Failures", "failures", "alert", "f"),
        ),
    ),
    (
        "Delivery",
        (
            Entry("Addresses", "addresses", "route", "a"),
            Entry("Destinations", "destinations", "send", "d"),
            Entry("Policies", "policies", "sliders", "p"),
            Entry("Rules", "rules", "filter", "e"),
            Entry("Restart jobs", "restart_jobs", "refresh", "r"),
            Entry("Poison list", "poison_list", "list-ban", "l"),
            Entry("Sources", "sources", "inbox", "s"),
        ),
    ),
    (
        "System",
        (
            Entry("Jobs", "jobs", "activity", "j"),
            Entry("Nodes", "nodes", "server", "n"),
            Entry("Audit", "audit", "book", "u"),
        ),
    ),
)


def sections_for(principal: Principal) -> list[tuple[str, list[Entry]]]:
    """Return the sections with the entries that the principal may open."""
    return [(title, [entry for entry in entries if principal.may(entry.permission)]) for title, entries in SECTIONS]
