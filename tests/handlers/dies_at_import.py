"""A module that kills its process when it is imported."""

import os

os._exit(7)
