"""Settings of the whole; what the environment may change is listed in README's table and read by ``env.py``."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any

from dashboard.config.env import (
    BASE_DIR,
    data_dir,
    database_url,
    databases,
    engine_limits,
    env,
    log_level,
    role,
    secret_key,
)
from dashboard.config.fonts import font_folders

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = secret_key()
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

QUARTERDECK_DATA = data_dir()
QUARTERDECK_ROLE = role()
QUARTERDECK = engine_limits()

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "guardian",
    "axes",
    "django_q",
    "runtime.apps.RuntimeConfig",
    "approvals.apps.ApprovalsConfig",
    "repair.apps.RepairConfig",
    "dashboard.apps.DashboardConfig",
]

MIDDLEWARE = [
    "runtime.api.admission.admission",
    "django.middleware.security.SecurityMiddleware",
    "dashboard.config.static.versioned",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.pages.middleware.ConsoleMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "dashboard.config.urls"
ASGI_APPLICATION = "dashboard.config.asgi.application"
WSGI_APPLICATION = "dashboard.config.wsgi.application"

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
            ]
        },
    }
]

QUARTERDECK_EMBEDDED = not env.str("DATABASE_URL", default="")
QUARTERDECK_DATABASE_URL = database_url()
DATABASES = databases(QUARTERDECK_DATABASE_URL)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
# No row for visitors without a name: every actor of this system is somebody (A10.1).
ANONYMOUS_USER_NAME = None
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

# Failed sign-ins of one name from one address: the fifth locks both for a quarter of an hour. Nobody can lock a name
# for those who come from elsewhere; behind a proxy that hides addresses a name is locked for all.
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken"]
AXES_LOCKOUT_CALLABLE = "dashboard.pages.sign_in_limits.locked_out"
AXES_VERBOSE = False

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "dashboard" / "locale"]  # before those of other apps, which know other workers
LOGIN_URL = "sign-in"
CSRF_FAILURE_VIEW = "dashboard.pages.errors.csrf_failure"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static", *font_folders()]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "dashboard.config.static.VersionedStorage"},
}
# Files are served from where they lie, so that a fresh clone needs no collectstatic.
WHITENOISE_USE_FINDERS = True

REDIS_URL = env.str("REDIS_URL", default="")
CACHES: dict[str, Any] = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
CHANNEL_LAYERS: dict[str, Any] = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
if REDIS_URL:
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}
    CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
    }

# django-q2 is a doorbell, not a ledger: the message says "there is work", our own table decides who runs what. So
# nothing is saved, nothing is retried, nothing is recycled and nothing is scheduled by it.
Q_CLUSTER = {
    "name": "quarterdeck",
    "broker_class": "runtime.worker.broker.Doorbell",
    "workers": env.int("QUARTERDECK_WORKERS", default=2),
    "timeout": None,
    "retry": 2**31,
    "max_attempts": 1,
    "ack_failures": True,
    "recycle": 2**31,
    "queue_limit": env.int("QUARTERDECK_WORKERS", default=2),
    "bulk": 1,
    "save_limit": -1,
    "scheduler": False,
    "catch_up": False,
    "guard_cycle": 0.5,
    "log_level": log_level(),
}
# It warns about a timeout of None, which is meant: steps have time limits of their own.
warnings.filterwarnings("ignore", message="No directory at", module="django.core.handlers.base")
warnings.filterwarnings("ignore", message="Retry and timeout are misconfigured", module="django_q.conf")

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Quarterdeck",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.bool("SECURE_COOKIES", default=False)
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
# Sent over TLS only, which behind a proxy means BEHIND_TLS_PROXY; 0 sends none.
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=0)
if env.bool("BEHIND_TLS_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# Without a mail server every mail becomes a file, so that nothing is lost and nothing leaves the machine.
EMAIL_HOST = env.str("EMAIL_HOST", default="")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'filebased'}.EmailBackend"
EMAIL_FILE_PATH = QUARTERDECK_DATA / "mail"
EMAIL_PORT = env.int("EMAIL_PORT", default=25)
EMAIL_HOST_USER = env.str("EMAIL_USER", default="")
EMAIL_HOST_PASSWORD = env.str("EMAIL_PASSWORD", default="")
EMAIL_USE_TLS = env.bool("EMAIL_TLS", default=False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.str("EMAIL_FROM", default="quarterdeck@localhost")

LOGGING_CONFIG = "dashboard.config.logs.configure"
LOGGING = {"level": log_level(), "json": env.bool("LOG_JSON", default=False)}
