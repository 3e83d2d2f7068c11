"""The application of the web process, which `poisonadmin.serve` runs."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "poisonadmin.settings")
os.environ.setdefault("POISONADMIN_DB_POOL", "1")
try:
    _django = get_asgi_application()
except ImproperlyConfigured as error:
    sys.exit(f"{error}.")

from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from poisonadmin.store.schema import check_schema
from poisonadmin.web.api.upload_limit import with_upload_limit
from poisonadmin.web.pages.logins import with_login_pool

# In a thread of its own: uvicorn imports this inside its event loop, where Django refuses to wait for a database.
with ThreadPoolExecutor(1) as _thread:
    _thread.submit(check_schema, needs_sessions=False).result()

# The outermost first says who the client is.
application = ProxyHeadersMiddleware(with_upload_limit(with_login_pool(_django)), settings.TRUSTED_PROXIES)
