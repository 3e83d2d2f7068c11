"""The web process, under uvicorn."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "poisonadmin.settings")
os.environ.setdefault("POISONADMIN_DB_POOL", "1")
_django = get_asgi_application()

from poisonadmin.api.upload_limit import with_upload_limit  # noqa: E402  (settings come first)

application = with_upload_limit(_django)
