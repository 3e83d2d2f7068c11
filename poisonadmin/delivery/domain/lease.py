"""The lease of a delivering process, and the silence after which it is taken for lost."""

LEASE_SECONDS = 60
# Nothing is begun this close to the end of the lease: the clock of the database and a node's may run apart.
LEASE_MARGIN_SECONDS = 5

HEARTBEAT_SECONDS = 0.5
SILENT_SECONDS = 1.5
# After a restart of the database its sessions have to come back first. People are shown a node as lost no sooner.
SILENT_SECONDS_AFTER_RESTART = 10
