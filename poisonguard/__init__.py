"""Keeps a consumer from handling, again and again, what fails or kills it: the consumer's side of PoisonAdmin."""

from poisonguard.errors import GuardError, ListNotLoaded, Refused, Undecided
from poisonguard.guard import SKIPPED, Guard, Skip

__all__ = ["SKIPPED", "Guard", "GuardError", "ListNotLoaded", "Refused", "Skip", "Undecided", "__version__"]
__version__ = "0.1.0"
