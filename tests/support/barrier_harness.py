"""Where the sentinel's effects happen: a small server in agentbarrier's own process, asked by real workers."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from agentbarrier.errors import AmbiguousEffectError
from agentbarrier.models import ActionRequest, ReconciliationEvidence, ReconciliationStatus
from agentbarrier.probe import EffectProbe


@dataclass
class Known:
    """One action: whose effect it is, in which loop, and whether its books may be looked at."""

    action: ActionRequest
    effect: EffectProbe
    loop: asyncio.AbstractEventLoop
    open: bool = False
    evidence: ReconciliationEvidence | None = None
    calls: list[Future[Any]] = field(default_factory=list)
    lookups: list[Future[ReconciliationEvidence]] = field(default_factory=list)
    replayed: asyncio.Event = field(default_factory=asyncio.Event)

    async def do(self, action: ActionRequest) -> str:
        """Do the effect; what was proved absent waits for the replay, which the suite looks for it before."""
        if self.evidence is not None and self.evidence.status is ReconciliationStatus.NOT_COMMITTED:
            await self.replayed.wait()
        return await self.effect(action)

    def close(self) -> None:
        """Close the books, also for who is looking: the suite takes them away with its scenario."""
        self.open = False
        for lookup in self.lookups:
            lookup.cancel()

    @property
    def going(self) -> bool:
        """Whether a call of it has not come to its end."""
        return any(not call.done() for call in self.calls)


class Harness:
    """The server; ``known`` are the actions by their ids."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self._calls: list[Future[Any]] = []
        harness = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                verb, _, rest = self.path.strip("/").partition("/")
                self._tell(harness.state(int(rest)) if verb == "state" else harness.books(unquote(rest)))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                verb, _, rest = self.path.strip("/").partition("/")
                self._tell(harness.start(body) if verb == "start" else harness.stop(int(rest)))

            def _tell(self, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self, body: dict[str, Any]) -> dict[str, Any]:
        """Begin an effect as it was asked for: with the arguments that came, whatever they are."""
        known = self.known[body["action_id"]]
        action = ActionRequest(body["action_id"], body["tool_name"], body["arguments"])
        call: Future[Any] = asyncio.run_coroutine_threadsafe(known.do(action), known.loop)
        known.calls.append(call)
        self._calls.append(call)
        return {"call": len(self._calls) - 1}

    def state(self, number: int) -> dict[str, str]:
        """Tell how a call stands."""
        call = self._calls[number]
        if not call.done():
            return {"state": "going"}
        if call.cancelled():
            return {"state": "stopped"}
        return {"state": "lost" if isinstance(call.exception(), AmbiguousEffectError) else "done"}

    def stop(self, number: int) -> dict[str, str]:
        """Stop a call that is under way, and tell how it ended."""
        call = self._calls[number]
        call.cancel()
        return self.state(number)

    def books(self, action_id: str) -> dict[str, Any]:
        """Tell what is known of an effect, once somebody may know."""
        known = self.known[action_id]
        if not known.open:
            return {"unavailable": True}
        asking = asyncio.run_coroutine_threadsafe(known.effect.reconcile(known.action), known.loop)
        known.lookups.append(asking)
        try:
            evidence = asking.result()
        except CancelledError:
            return {"unavailable": True}
        known.evidence = evidence
        if evidence.status is ReconciliationStatus.UNAVAILABLE:
            return {"unavailable": True}
        found = evidence.status is not ReconciliationStatus.NOT_COMMITTED
        return {"found": found, "matches": evidence.status is ReconciliationStatus.COMMITTED}
