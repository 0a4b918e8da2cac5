"""What every page gets: the reader's zone and theme from cookies, and a policy that lets in our own files only."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

THEMES = ("auto", "light", "dark")
THEME_COOKIE, ZONE_COOKIE = "qd_theme", "qd_zone"
# Artifacts and the API's documentation carry their own; every other page is ours, without inline code or styles.
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'"
)


class ConsoleMiddleware:
    """Activates the zone for this request and sets the content security policy of HTML pages."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        theme = request.COOKIES.get(THEME_COOKIE, "auto")
        request.theme = theme if theme in THEMES else "auto"  # type: ignore[attr-defined]
        with timezone.override(zone_of(request.COOKIES.get(ZONE_COOKIE))):
            response = self.get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            response.headers.setdefault("Content-Security-Policy", POLICY)
            response.headers.setdefault("Cache-Control", "no-store")
        return response


def zone_of(name: str | None) -> zoneinfo.ZoneInfo:
    """Return the zone of that name; UTC for none, for one that does not exist and for anything that is no name."""
    try:
        return zoneinfo.ZoneInfo(name or "UTC")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return zoneinfo.ZoneInfo("UTC")
