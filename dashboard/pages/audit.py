"""The audit: acts of people and services and decisions of policies, append-only and chained; export with the hashes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from dashboard.pages import export
from dashboard.pages.console import moment, page, show
from dashboard.pages.runs import WINDOWS, window_word
from runtime.access import verbs as v
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.queries.audit_chain import verify_chain
from runtime.queries.people import list_audit

DEFAULT_WINDOW = "30d"
FILTERS = ("by", "verb", "result", "subject_id")


def _wanted(request: HttpRequest) -> dict[str, Any]:
    asked = {name: request.GET.get(name, "")[:200].replace("\x00", "").strip() for name in FILTERS}
    return {name: value for name, value in asked.items() if value}


def _window(request: HttpRequest, actor: Actor) -> tuple[str, datetime | None]:
    """Return which window the address asks for, and the time at which it begins; None: at the beginning."""
    within = asked if (asked := request.GET.get("within", "")) in WINDOWS else DEFAULT_WINDOW
    span = WINDOWS[within]
    return within, moment(actor) - span if span is not None else None


@page(v.AUDIT_READ, section="audit", methods=("GET", "HEAD", "POST"))
def audit(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Show entries, newest first; by POST also what a walk along the whole chain finds."""
    report = verify_chain(actor=actor) if request.method == "POST" else None
    wanted = _wanted(request)
    within, since = _window(request, actor)
    found = list_audit(actor=actor, since=since, cursor=request.GET.get("cursor"), limit=50, count=True, **wanted)
    context = {
        "crumbs": [(_("Audit"), None)],
        "page": found,
        "report": report,
        "rows": found.items,
        "wanted": wanted,
        "within": within,
        "windows": [(name, window_word(name)) for name in WINDOWS],
        "verbs": sorted(seams.known_acts() | {wanted["verb"]} if "verb" in wanted else seams.known_acts()),
        "newest": found.items[0] if found.items and not request.GET.get("cursor") and not wanted else None,
    }
    return show(request, "pages/audit.html", context)


@page(v.AUDIT_READ)
def download(request: HttpRequest, actor: Actor, kind: str) -> HttpResponseBase:
    """Send the entries as they are filtered, each with its proof.

    ``sha256`` is SHA-256 of the 32 bytes of ``previous_sha256`` and the text of ``body``. An address that names no
    window asks for the whole chain.
    """
    wanted = _wanted(request)
    since = _window(request, actor)[1] if "within" in request.GET else None

    def chunk(cursor: str | None) -> Any:
        return list_audit(actor=actor, since=since, cursor=cursor, limit=export.PAGE, proof=True, **wanted)

    names = "number at actor verb subject_kind subject_id run_id result reason details previous_sha256 sha256 body"
    return export.stream(kind, "audit", {name: _reader(name) for name in names.split()}, chunk)


def _reader(name: str) -> Any:
    return lambda row: row[name]
