"""Static files under an address that changes with them: no page runs modules of two releases, and browsers keep each.

The version is a folder in the address (``/static/v-…/js/app.js``), so what a file imports or shows by a relative
address comes from the same release. It is made of the files' content and is the same on every host; nothing is
collected or renamed. A version that is not ours, as of a page from before an upgrade, is answered with what is there
now.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache

from django.conf import settings
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest, HttpResponse

from dashboard.config.env import BASE_DIR

_OURS = (".js", ".css", ".svg")
_VERSIONED = re.compile(r"v-(?P<version>[0-9a-f]{12})/(?P<file>.+)")
_FOR_GOOD = "public, max-age=31536000, immutable"


@cache
def version() -> str:
    """Return twelve hex digits of the hash over our own scripts, styles and drawings."""
    found = hashlib.sha256()
    folder = BASE_DIR / "static"
    for path in sorted(folder.rglob("*")):
        if path.suffix in _OURS:
            found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


class VersionedStorage(StaticFilesStorage):
    """Gives out addresses with the version in them."""

    def url(self, name: str | None) -> str:
        return super().url(f"v-{version()}/{name}")


def versioned(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Let WhiteNoise, which comes next, find the file; what is of this version may be kept for good."""

    def answer(request: HttpRequest) -> HttpResponse:
        prefix = settings.STATIC_URL
        found = _VERSIONED.fullmatch(request.path_info[len(prefix) :]) if request.path_info.startswith(prefix) else None
        if found is None:
            return get_response(request)
        request.path_info = prefix + found["file"]
        response = get_response(request)
        if found["version"] == version() and response.status_code in (200, 304) and not settings.DEBUG:
            response["Cache-Control"] = _FOR_GOOD
        return response

    return answer
