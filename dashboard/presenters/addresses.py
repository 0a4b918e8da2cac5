"""The address of the page beside which a step's drawer stands, also when the drawer alone was asked for."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.http import HttpRequest, QueryDict


def beside(request: HttpRequest, step: str = "", part: str = "") -> str:
    """Return the reader's page of the run, its filters kept, with the drawer of ``step`` open; without one, closed.

    A drawer that is loaded by itself stands on the page that ``HX-Current-URL`` names: only a page of the same run.
    """
    own, alone, _node = request.path.partition("drawer/")
    page = urlsplit(request.headers.get("HX-Current-URL", "") if alone else request.get_full_path())
    if not page.path.startswith(own):
        page = urlsplit(own)
    values = QueryDict(page.query, mutable=True)
    for name, value in (("step", step), ("part", part)):
        values.pop(name, None)
        if value:
            values[name] = value
    return f"{page.path}?{values.urlencode()}" if values else page.path
