"""What the side bar leads to: only pages that exist, and only those that the reader may open."""

from dataclasses import dataclass

from poisonadmin.core.domain.access import Permission, Principal


@dataclass(frozen=True)
class SidebarEntry:
    """`key` is the letter that follows `g` on the keyboard."""

    name: str
    route: str
    icon: str
    key: str
    permission: Permission = Permission.READ


SECTIONS: tuple[tuple[str, tuple[SidebarEntry, ...]], ...] = (
    (
        "Triage",
        (
            SidebarEntry("Overview", "overview", "home", "o"),
            SidebarEntry("Blacklist", "blacklist", "bolt", "b"),
            SidebarEntry("Messages", "messages", "mail", "m"),
            SidebarEntry("Failure groups", "groups", "layers", "g"),
            SidebarEntry("Failures", "failures", "alert", "f"),
        ),
    ),
    (
        "Delivery",
        (
            SidebarEntry("Addresses", "addresses", "route", "a"),
            SidebarEntry("Destinations", "destinations", "send", "d"),
            SidebarEntry("Policies", "policies", "sliders", "p"),
            SidebarEntry("Rules", "rules", "filter", "e"),
            SidebarEntry("Restart jobs", "restart_jobs", "refresh", "r"),
            SidebarEntry("Poison list", "poison_list", "list-ban", "l"),
            SidebarEntry("Sources", "sources", "inbox", "s"),
        ),
    ),
    (
        "System",
        (
            SidebarEntry("Jobs", "jobs", "activity", "j"),
            SidebarEntry("Nodes", "nodes", "server", "n"),
            SidebarEntry("Audit", "audit", "book", "u"),
        ),
    ),
)


def sections_for(principal: Principal) -> list[tuple[str, list[SidebarEntry]]]:
    """Return the sections with the entries that the principal may open."""
    return [(title, [entry for entry in entries if principal.may(entry.permission)]) for title, entries in SECTIONS]
