"""Settings come from the environment, are read once, and fail loudly.

Every variable read here is documented in docs/operate/configuration.md; a test compares the two.
"""

import os
import secrets
from pathlib import Path

import structlog
from django.contrib.messages.constants import ERROR

from poisonadmin.environment import Environment

env = Environment(os.environ)
BASE_DIR = Path(__file__).resolve().parent.parent
HOME = Path(env.text("POISONADMIN_HOME", str(BASE_DIR / ".poisonadmin"))).resolve()


def _secret_key() -> str:
    """Return the signing key: POISONADMIN_SECRET_KEY, else one made once and kept in POISONADMIN_HOME (mode 600)."""
    if key := env.secret_key("POISONADMIN_SECRET_KEY"):
        return key
    path = HOME / "secret-key"
    HOME.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as handle:
        handle.write(key := secrets.token_urlsafe(48))
    return key


SECRET_KEY = _secret_key()
DEBUG = env.flag("POISONADMIN_DEBUG")
ALLOWED_HOSTS = env.hosts("POISONADMIN_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.origins("POISONADMIN_TRUSTED_ORIGINS")
ENVIRONMENT_NAME = env.badge("POISONADMIN_ENVIRONMENT", "local")
BEHIND_TLS = env.flag("POISONADMIN_BEHIND_TLS")
TRUSTED_PROXIES = env.networks("POISONADMIN_TRUSTED_PROXIES")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "whitenoise.runserver_nostatic",
    "poisonadmin.web.pages.statics.OnlyWhatPagesUse",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "axes",
    "csp",
    "django_htmx",
    "django_structlog",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "pgtrigger",
    "rest_framework",
    "poisonadmin.store",
    "poisonadmin.web.api",
    "poisonadmin.web.pages",
]
MIDDLEWARE = [
    "poisonadmin.web.api.observed.observed",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    # Behind the one that gives requests their ids, so that the refusal of a Host has one.
    "django.middleware.common.CommonMiddleware",
    "poisonadmin.web.pages.errors.readable_queries",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "poisonadmin.web.pages.logins.sessions",
]
ROOT_URLCONF = "poisonadmin.urls"
ASGI_APPLICATION = "poisonadmin.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "poisonadmin.system.pages.shell.shell",
            ],
            "builtins": [
                "django.templatetags.static",
                "django.contrib.humanize.templatetags.humanize",
                "poisonadmin.web.pages.templatetags.pages",
            ],
        },
    }
]

MESSAGE_TAGS = {ERROR: "danger"}  # as the style sheet calls it
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # and in no cookie

# --- database -------------------------------------------------------------------------------------------------------
DATABASES = {"default": env.database("DATABASE_URL")}
# The same database as the owner of its tables, where that is another role; for `manage.py migrate` and `restore` alone.
MIGRATION_DATABASE = env.database("MIGRATION_DATABASE_URL", is_required=False)
_options = DATABASES["default"].setdefault("OPTIONS", {})
if env.flag("POISONADMIN_DB_POOL"):
    # The web process only: a pool does not survive a prefork. A dead connection is checked before it is handed out.
    _options["pool"] = {"min_size": 2, "max_size": 20, "timeout": 5}
    # They live in a session, and a pooler may give each transaction another one.
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False

# --- queue ----------------------------------------------------------------------------------------------------------
REDIS_URL = env.redis("REDIS_URL", "redis://127.0.0.1:6379/0")

# Tasks and sandboxes run without these settings and read the environment themselves; a mistake stops the start here.
env.check_reach()
env.check_spark()
env.port("POISONADMIN_PORT", 8000)

# Touched by a worker and the beat, once a second.
ALIVE_FILE = env.file("POISONADMIN_ALIVE_FILE")
SOURCE_ROOTS = env.source_roots(HOME)
ARCHIVE = env.archive(HOME)

# --- mail -----------------------------------------------------------------------------------------------------------
_mail = env.mail("POISONADMIN_MAIL_URL")
EMAIL_HOST, EMAIL_PORT = _mail.host, _mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.starts_tls, _mail.is_tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.sender("POISONADMIN_MAIL_FROM", "poisonadmin@localhost")
PUBLIC_URL = env.public_url("POISONADMIN_PUBLIC_URL")
TRACE_LINKS = env.trace_links("POISONADMIN_TRACE_LINKS")

# --- login ----------------------------------------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "poisonadmin.web.pages.logins.ClosedSignup"
ACCOUNT_LOGOUT_ON_GET = False
PASSWORD_RESET_TIMEOUT = 24 * 3600  # of the link that an administrator makes
# allauth's limits of logins count an account from everywhere and an address for everybody: strangers would lock people
# out. axes counts here; see poisonadmin.web.pages.logins.
ACCOUNT_RATE_LIMITS = {"login": None, "login_failed": None}
MFA_ROLES = env.roles("POISONADMIN_MFA_ROLES")
MFA_ADAPTER = "poisonadmin.web.pages.second_factors.SecondFactors"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_FORMS = {
    "authenticate": "poisonadmin.web.pages.second_factors.AuthenticateForm",
    "reauthenticate": "poisonadmin.web.pages.second_factors.ReauthenticateForm",
}
MFA_TRUST_ENABLED = False  # a remembered browser is asked for the second factor too
SIGN_ON = env.sign_on()
LOCAL_LOGIN = env.flag("POISONADMIN_LOCAL_LOGIN", default=True)
SOCIALACCOUNT_ADAPTER = "poisonadmin.system.pages.sign_on.SignOnAdapter"
SOCIALACCOUNT_LOGIN_ON_GET = True  # the policy for forms would not let one lead to the provider
AXES_HANDLER = "poisonadmin.web.pages.logins.LoginThrottle"
# A limit for each is in poisonadmin.web.pages.logins; "user_agent" is what that calls a known browser.
AXES_LOCKOUT_PARAMETERS = [
    ["username", "ip_address", "user_agent"],
    ["ip_address", "user_agent"],
    ["username", "user_agent"],
]
AXES_CLIENT_IP_CALLABLE = "poisonadmin.web.pages.logins.network_of"
AXES_USERNAME_CALLABLE = "poisonadmin.web.pages.logins.account_of"
AXES_LOCKOUT_CALLABLE = "poisonadmin.web.pages.logins.refused"
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = 12  # hours for which a failure counts
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # it is in the audit log
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "login", "csrfmiddlewaretoken", "next"]
SESSION_COOKIE_AGE = env.number("POISONADMIN_SESSION_HOURS", 12, most=720) * 3600
SESSION_MAX_SECONDS = env.number("POISONADMIN_SESSION_MAX_HOURS", 168, most=8760) * 3600

# An operation that waits for the consent of another person is cancelled after so long.
SIGN_OFF_HOURS = env.number("POISONADMIN_SIGN_OFF_HOURS", 24, most=720)

# --- browser --------------------------------------------------------------------------------------------------------
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
        "manifest-src": ["'self'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "poisonadmin.web.pages.errors.csrf_failure"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
# A browser takes a cookie of such a name from this host alone, and from no other one of the domain.
_host = "__Host-" if BEHIND_TLS else ""
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{_host}sessionid", f"{_host}csrftoken"
KNOWN_BROWSER_COOKIE_NAME = f"{_host}known_browser"
SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = BEHIND_TLS

STATIC_URL = "static/"
STATIC_ROOT = Path(env.text("POISONADMIN_STATIC_ROOT", str(HOME / "staticfiles")))
_modules = BASE_DIR / "node_modules"
STATICFILES_DIRS = [
    BASE_DIR / "static",
    ("tabler", _modules / "@tabler" / "core" / "dist" / "css"),
    ("uplot", _modules / "uplot" / "dist"),
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "poisonadmin.web.pages.statics.Storage"},
}

# --- API ------------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "poisonadmin.web.api.authentication.TokenAuthentication",
        "poisonadmin.web.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["poisonadmin.web.api.authentication.MayDo"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "poisonadmin.web.api.document.ContractSchema",
    "EXCEPTION_HANDLER": "poisonadmin.web.api.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "PoisonAdmin",
    "DESCRIPTION": "Takes in poison messages, shows why they fail, and redelivers them after a decision.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 96 * 1024 * 1024  # a 64 MiB payload, base64-encoded

# The client's address in the log; poisonadmin.asgi sets it to what a trusted proxy says.
IPWARE_META_PRECEDENCE_ORDER = ["REMOTE_ADDR"]
DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True  # poisonadmin.web.api.observed has looked at it
LOG_FORMAT = env.one_of("POISONADMIN_LOG_FORMAT", ("plain", "json"), "plain")
# structlog writes through logging, so that one place says what is logged; a line a request is the proxy's business.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.filter_by_level,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter
        if LOG_FORMAT == "json"
        else structlog.processors.KeyValueRenderer(key_order=["event"]),
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "bare": {"format": "%(message)s"},
        "plain": {"format": "%(levelname)s %(name)s %(message)s"},
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            # Of lines that did not come through structlog.
            "foreign_pre_chain": [structlog.contextvars.merge_contextvars, structlog.stdlib.ExtraAdder()],
            "processors": [
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        },
    },
    "handlers": {
        "audit": env.audit_handler("POISONADMIN_AUDIT_LOG"),
        "stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT},
    },
    "root": {"handlers": ["stderr"], "level": env.level("POISONADMIN_LOG_LEVEL", "INFO")},
    "loggers": {
        # Its lines go nowhere else, and nothing else goes there.
        "poisonadmin.audit": {
            "handlers": ["audit"],
            "level": "INFO" if env.text("POISONADMIN_AUDIT_LOG") else "CRITICAL",
            "propagate": False,
        },
        **{name: {"level": "WARNING"} for name in ("django_structlog", "axes", "py4j")},
        # Anybody can send a host name that is not ours; each would write a stack trace.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}

# Nobody reads these, most likely for a typing error; each start says so, and `manage.py check`.
UNKNOWN_VARIABLES = env.unknown()
