"""The settings as mypy's Django plugin reads them: it needs the models, no database."""

import os

os.environ.setdefault("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
os.environ.setdefault("POISONADMIN_SECRET_KEY", "not-a-secret-no-request-is-served-with-it")

from poisonadmin.settings import *  # noqa: F403
