"""Signing in and out, and what a reader sets for themselves: tenant, zone, theme, language."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout, update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.forms.session import OwnPasswordForm, SignInForm
from dashboard.pages.console import TENANT, local_path, page, show
from dashboard.pages.middleware import THEME_COOKIE, THEMES, ZONE_COOKIE, zone_of
from dashboard.pages.rendering import render
from runtime.actions.languages import choose_language
from runtime.actions.passwords import change_own_password, record_refused_password
from runtime.kernel.actor import Actor
from runtime.store import directory
from runtime.store.languages import known, language_of

YEAR = 365 * 24 * 3600


@sensitive_post_parameters("password")
@never_cache
@csrf_protect
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the form, or sign in and go on to where the reader wanted to be."""
    target = local_path(request.POST.get("next") or request.GET.get("next") or "")
    if request.user.is_authenticated and request.method != "POST":
        return HttpResponseRedirect(target if target != "/" else reverse("now"))
    form = SignInForm(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        login(request, form.get_user())
        response = HttpResponseRedirect(target if target != "/" else reverse("now"))
        _speak(request, response)
        return response
    status = 400 if request.method == "POST" else 200
    return render(request, "pages/sign_in.html", {"form": form, "next": target}, status=status)


@csrf_protect
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return HttpResponseRedirect(reverse("sign-in"))


@csrf_protect
@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Keep what the reader chose: theme, zone and language in cookies, the tenant in the session.

    The language is kept for the person too: mails to them are written in it.
    """
    response = HttpResponseRedirect(local_path(request.POST.get("next", "")))
    asked = request.POST
    if (theme := asked.get("theme")) in THEMES:
        _keep(response, THEME_COOKIE, theme)
    if (zone := asked.get("zone")) and zone_of(zone).key == zone:
        _keep(response, ZONE_COOKIE, zone)
    if (language := asked.get("language")) in dict(settings.LANGUAGES):
        _keep(response, settings.LANGUAGE_COOKIE_NAME, language)
        if request.user.is_authenticated:
            choose_language(user=request.user, language=language)
    if tenant := asked.get("tenant"):
        pk = request.user.pk if request.user.is_authenticated else None
        if pk is not None and any(one.slug == tenant for one in directory.memberships_of(pk)):
            request.session[TENANT] = tenant
    return response


@sensitive_post_parameters()
@never_cache
@page(section="password", methods=("GET", "HEAD", "POST"))
def password(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Change one's own password: this session goes on, all others of the same person end."""
    sent = request.POST if request.method == "POST" else None
    form = OwnPasswordForm(request.user, sent)
    if sent is not None and form.is_valid():
        change_own_password(actor=actor, user=request.user, password=form.cleaned_data["new_password1"])
        update_session_auth_hash(request, request.user)  # type: ignore[arg-type]
        messages.success(request, _("Your password was changed. Your other sessions ended."), extra_tags="succeeded")
        return HttpResponseRedirect(reverse("password"))
    if sent is not None:
        record_refused_password(actor=actor, username=actor.name)
    context = {"crumbs": [(_("Your password"), None)], "form": form}
    return show(request, "pages/password.html", context, status=200 if sent is None else 400)


def _speak(request: HttpRequest, response: HttpResponse) -> None:
    """Speak the language that the person chose where this browser has no choice; keep its choice for who has none."""
    assert request.user.pk is not None
    chosen, name = language_of(request.user.pk), settings.LANGUAGE_COOKIE_NAME
    here = request.COOKIES.get(name)
    if chosen is None and known(here):
        choose_language(user=request.user, language=str(here))
    elif chosen is not None and not known(here):
        _keep(response, name, chosen)


def _keep(response: HttpResponse, name: str, value: Any) -> None:
    response.set_cookie(
        name, str(value), max_age=YEAR, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE, httponly=True
    )
