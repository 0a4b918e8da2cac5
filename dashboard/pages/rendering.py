"""The one way from a template to a page: what it shows has no hidden characters, whoever wrote it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from dashboard.presenters.unseen import visible


def render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Answer with a template as a page."""
    return HttpResponse(visible(render_to_string(template, context, request)), status=status)
