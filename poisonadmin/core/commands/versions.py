"""Configuration is replaced as it was read, or not at all."""

from poisonadmin.core.domain.errors import PoisonAdminError


class ConfigurationNotFound(PoisonAdminError):
    """Raised when there is no policy, destination or source of that name or id."""

    code = "not_found"
    status = 404


class VersionConflict(PoisonAdminError):
    """Raised when somebody else has changed the object since it was read."""

    code = "precondition_failed"
    status = 412
