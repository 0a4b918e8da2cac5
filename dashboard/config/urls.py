"""Every address of the site."""

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

from dashboard.pages import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
# The live addresses first: the API answers every other address below it, if only with a problem.
urlpatterns.append(path("api/v1/", include("dashboard.live.urls")))
urlpatterns.append(path("api/v1/", include("approvals.api.urls")))
urlpatterns.append(path("api/v1/", include("repair.api.urls")))
if find_spec("runtime.api.urls"):
    urlpatterns.append(path("api/v1/", include("runtime.api.urls")))
urlpatterns.append(path("", include("dashboard.urls")))

handler400 = "dashboard.pages.errors.not_read"
handler403 = "dashboard.pages.errors.forbidden"
handler404 = "dashboard.pages.errors.not_found"
handler500 = "dashboard.pages.errors.failed"
