"""The web process, under uvicorn."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "poisonadmin.settings")
os.environ.setdefault("POISONADMIN_DB_POOL", "1")
application = get_asgi_application()
