"""The addresses of sockets."""

from __future__ import annotations

from channels.routing import URLRouter
from django.urls import re_path

from dashboard.live.sockets import NoSocket, RunSocket

sockets = URLRouter(
    [
        re_path(r"^ws/runs/(?P<run_id>[^/]{1,64})/$", RunSocket.as_asgi()),
        re_path(r"^.*$", NoSocket.as_asgi()),
    ]
)
