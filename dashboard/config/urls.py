"""Every address of the site."""

from django.urls import URLPattern, URLResolver, include, path

from dashboard.pages import health
from runtime.api.urls import nowhere

# Submits first, since every address that is looked at costs time. What no app knows gets a problem: that comes last.
_API = ["runtime.api.urls", "dashboard.live.urls", "approvals.api.urls", "repair.api.urls"]

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    *(path("api/v1/", include(addresses)) for addresses in _API),
    path("api/v1/", include(nowhere)),
    path("", include("dashboard.urls")),
]

handler400 = "dashboard.pages.errors.not_read"
handler403 = "dashboard.pages.errors.forbidden"
handler404 = "dashboard.pages.errors.not_found"
handler500 = "dashboard.pages.errors.failed"
