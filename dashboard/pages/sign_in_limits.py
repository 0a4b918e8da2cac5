"""Failed sign-ins are counted per name and address by django-axes; what people and the audit see of it is here."""

from __future__ import annotations

from typing import Any

from axes.helpers import get_client_ip_address, get_cool_off, get_failure_limit
from django.contrib.auth import get_user_model, user_login_failed
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from dashboard.forms.session import SignInForm
from dashboard.pages.rendering import render
from runtime.actions.sign_ins import record_refused_sign_in


def locked_out(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """Answer a sign-in that was tried too often: 429, with the time after which it may be tried again."""
    minutes = max(1, round(_seconds() / 60))
    text = _("Too many failed sign-ins with this name. Nothing was signed in; try again in %(n)d minutes.")
    context = {
        "form": SignInForm(request, initial={"username": request.POST.get("username", "")[:150]}),
        "refused": text % {"n": minutes},
        "next": request.POST.get("next", ""),
    }
    response = render(request, "pages/sign_in.html", context, status=429)
    response["Retry-After"] = str(_seconds())
    return response


def _seconds() -> int:
    span = get_cool_off(None)
    return int(span.total_seconds()) if span else 60


def note_failure(sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **more: Any) -> None:
    """Tell the audit of a failed sign-in, up to the one that locks; what a locked name tries is not repeated there."""
    name = str(credentials.get("username") or "")[:150]
    if request is None or not name or "\x00" in name:
        return
    # Axes counted it just before; it does not count what a locked name tries.
    count: int | None = getattr(request, "axes_failures_since_start", None)
    user = get_user_model().objects.filter(username=name).only("pk").first()
    if user is None or count is None:
        return
    locked = count >= get_failure_limit(request, credentials)
    address = get_client_ip_address(request) or ""
    record_refused_sign_in(user_id=user.pk, username=name, address=address, locked=locked)


def connect() -> None:
    """Listen to sign-ins that failed, after axes has counted them."""
    user_login_failed.connect(note_failure, dispatch_uid="quarterdeck.sign_ins")
