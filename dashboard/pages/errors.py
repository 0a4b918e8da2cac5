"""Pages that say why there is nothing else: what did not happen, why, and what to do."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import psycopg
from django.contrib.auth.models import AnonymousUser
from django.db import DataError
from django.db import Error as DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.pages import navigation
from dashboard.pages.rendering import render
from runtime.api.problems import as_error, plain
from runtime.kernel.errors import (
    AskedTooSoon,
    BadInput,
    Conflict,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    QuarterdeckError,
    Unavailable,
)

log = logging.getLogger("quarterdeck.console")


class OtherTenant(Conflict):
    """The page was shown in another tenant than the one that is chosen now."""

    code, title = "other_tenant", "Shown in another tenant"


def show(request: HttpRequest, problem: QuarterdeckError) -> HttpResponse:
    """Answer with a problem: a fragment for htmx, else a whole page in the shell when somebody is signed in."""
    context = {"problem": problem, "title": title_of(problem), "mark": mark_of(problem)}
    htmx = getattr(request, "htmx", None)
    if htmx:
        return _fragment(request, problem, context, inside=getattr(htmx, "target", None) == "dialog")
    shell = getattr(request, "shell", None)
    template = "pages/error.html" if shell else "pages/error_plain.html"
    if shell:
        # The sidebar stays, so that one can go on elsewhere; with the database away there is none to be had.
        with suppress(QuarterdeckError, psycopg.Error, DatabaseError):
            shell.groups = shell.groups or navigation.groups(shell.actor)
            items = [item for group in shell.groups for item in group.items]
            context["back"] = next((one for one in items if one.key == shell.section != "now"), None)
    context |= {"shell": shell, "now": timezone.now(), "crumbs": [(context["title"], None)]}
    response = render(request, template, context, status=problem.http_status)
    if problem.retry_after is not None:
        response["Retry-After"] = str(max(1, round(problem.retry_after)))
    return response


def _fragment(
    request: HttpRequest, problem: QuarterdeckError, context: dict[str, Any], *, inside: bool
) -> HttpResponse:
    """Answer in the dialog that asked, beside what was typed there; a toast would lie under it, out of reach."""
    template, place = "components/problem.html", ("#toasts", "afterbegin")
    if inside:
        shown = request.method in ("GET", "HEAD")
        template = f"components/problem_{'dialog' if shown else 'note'}.html"
        place = ("#dialog" if shown else "#dialog-problem", "innerHTML")
    response = render(request, template, context, status=problem.http_status)
    response["HX-Retarget"], response["HX-Reswap"] = place
    return response


def title_of(problem: QuarterdeckError) -> str:
    """Return what did not happen, as a sentence."""
    if isinstance(problem, NotFound):
        return _("There is nothing here")
    if isinstance(problem, PermissionDenied):
        return _("You may not see this")
    if isinstance(problem, Unavailable):
        return _("Not recorded: the database is away")
    if isinstance(problem, OtherTenant):
        return _("This page was shown in another tenant")
    if isinstance(problem, AskedTooSoon):
        return _("Asked too soon")
    if problem.http_status == 409:
        return _("This moved while you read. Nothing was done.")
    if problem.http_status < 500:
        return _("That was not understood. Nothing was done.")
    return _("Something failed here")


def mark_of(problem: QuarterdeckError) -> str:
    """Return the state whose mark stands beside the sentence."""
    if problem.http_status == 409:
        return "hold"
    return "failed" if problem.http_status >= 500 or isinstance(problem, PermissionDenied) else "skipped"


def not_found(request: HttpRequest, exception: Any = None) -> HttpResponse:
    """Answer an address that leads nowhere."""
    return show(request, NotFound(_("No page has this address."), remediation=_("Start again from Now.")))


def not_read(request: HttpRequest, exception: Any = None) -> HttpResponse:
    """Answer what Django could not read, such as a broken multipart body: the API as a problem, a page as a page."""
    problem = as_error(exception)
    if not isinstance(problem, BadInput):
        problem = BadInput("The request is not one that can be answered.", remediation="Correct it and try again.")
    if request.path_info.startswith("/api/"):
        return plain(problem, request.path_info)
    mend = _("Load the page again and repeat the act.")
    return show(request, BadInput(_("What was sent could not be read."), where=problem.where, remediation=mend))


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    """Answer a refusal that came from Django itself."""
    return show(request, PermissionDenied())


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form that was not ours, or that is older than the session it came from."""
    text = _("The form does not belong to your present session, so nothing was done.")
    return show(request, PermissionDenied(text, remediation=_("Load the page again and repeat the act.")))


def of_database(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an error of the database: an outage or a lock as 503, everything else as a fault of ours, which is logged.

    What the database said stays in the log: it may quote rows.
    """
    if not hasattr(request, "shell"):
        # Who reads it could not be asked; the page around the problem does not ask again.
        request.user = AnonymousUser()
    if _unstorable(exception):
        log.info("a value cannot be stored", exc_info=exception, extra={"path": request.path})
        return show(request, BadInput(_("What was sent cannot be stored."), remediation=_("Correct it and try again.")))
    problem = as_error(exception)
    if isinstance(problem, Unavailable):
        detail = _DATABASE.get(problem.detail, problem.detail)
        mend = _("Try again in a moment.")
        return show(request, Unavailable(str(detail), remediation=mend, retry_after=problem.retry_after or 5))
    log.error("a page failed", exc_info=exception, extra={"path": request.path})
    return failed(request)


def _unstorable(exception: Exception) -> bool:
    """Say whether an address or a form held a character or a number that the database does not store."""
    cause = exception.__cause__ if isinstance(exception, DataError) else exception
    # What psycopg refuses before it is sent (NUL) has no class of its own.
    of_value = (psycopg.errors.NumericValueOutOfRange, psycopg.errors.CharacterNotInRepertoire)
    return type(cause) is psycopg.DataError or isinstance(cause, of_value)


_DATABASE = {
    "The database is away.": gettext_lazy("The database is away."),
    "The database is not migrated.": gettext_lazy("The database is not migrated."),
    "Another transaction holds what this one needs.": gettext_lazy("Another transaction holds what this one needs."),
}


def failed(request: HttpRequest) -> HttpResponse:
    """Answer a fault of ours."""
    return show(request, QuarterdeckError(_("The fault is on our side and was logged."), remediation=_("Try again.")))


def signed_out(request: HttpRequest) -> NotAuthenticated:
    """Return the problem of somebody whose session ended while a page was open."""
    return NotAuthenticated(_("Your session has ended; nothing was done."), remediation=_("Sign in again."))
