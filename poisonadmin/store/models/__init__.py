"""One file a table or two. Django takes the models that are imported here: those of every file."""

from importlib import import_module
from pkgutil import iter_modules

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
