"""The web process: `daphne dashboard.config.asgi:application`. It alone pools its database connections."""

import gc
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
os.environ.setdefault("QUARTERDECK_POOL", "1")

import django
from asgiref.sync import sync_to_async
from channels.routing import ProtocolTypeRouter
from django.core.handlers.asgi import ASGIHandler


class OneThreadHandler(ASGIHandler):
    """Answers a request in one thread from the first middleware to the view: all of them are synchronous.

    Django's own handler goes back to the event loop between them for those that could be asynchronous, and into the
    thread again for the view: a tenth of what a submit costs.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """Build the synchronous chain, and enter it by a thread of the request's."""
        super().load_middleware(is_async=False)
        chain = self._middleware_chain  # type: ignore[has-type]
        self._middleware_chain = sync_to_async(chain, thread_sensitive=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request. What it holds of the process is given back here, whatever became of it."""
        seat = scope[SEAT] = Seat()
        try:
            await super().__call__(scope, receive, send)
        finally:
            seat.leave()

    async def send_response(self, response: Any, send: Any) -> None:
        """Send an answer; one that lasts holds no thread meanwhile."""
        if isinstance(response, Lasting):
            dismiss_thread()
        await super().send_response(response, send)


django.setup(set_prefix=False)

from dashboard.live.endpoint import Lasting, dismiss_thread  # noqa: E402  the models must be loaded first
from dashboard.live.routing import sockets  # noqa: E402
from dashboard.live.seats import SEAT, Seat  # noqa: E402

http = OneThreadHandler()

application = ProtocolTypeRouter({"http": http, "websocket": sockets})

# What is loaded by now stays: looking through it for garbage again and again stopped every request and socket for
# 100 ms now and then (p95 of a large run's page 147 → 55 ms).
gc.collect()
gc.freeze()
