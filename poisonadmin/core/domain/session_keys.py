"""The keys under which a session of the dashboard keeps when and where it began, and when a person last used it."""

BEGAN_AT, ACTIVE_AT = "began_at", "active_at"
NETWORK, BROWSER = "network", "browser"
MAX_BROWSER_CHARS = 200
