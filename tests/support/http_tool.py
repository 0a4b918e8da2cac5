"""A small HTTP service of our own in another process: the outside world of tool tests, with a log of what it did.

Run as ``python -m tests.support.http_tool LOG``; it prints its port. Each effect is one JSON line in LOG, so a test can
count what really happened, also after the service or its client was killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parents[2]
HANG_S = 30.0


class _Server(ThreadingHTTPServer):
    """With a backlog for many calls at once; the library's five would reset connections on a busy machine."""

    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed, or gave up, is no trouble of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Books:
    """The effects, on disk, and the answers by key."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.answers: dict[str, dict[str, Any]] = {}
        self.seen = 0
        self.asked: Counter[str] = Counter()

    def apply(self, entry: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            with open(self.path, "a", encoding="utf-8") as log:
                log.write(json.dumps(entry) + "\n")
            self.seen += 1
            answer = {"applied": True, "number": self.seen}
            if entry["key"]:
                self.answers.setdefault(entry["key"], answer)
            return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    books: _Books

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        name, _, self.rest = parts.path.strip("/").partition("/")
        getattr(self, "do_" + name.replace("-", "_"), self.do_unknown)()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = _serve

    def _apply(self) -> dict[str, Any]:
        key, epoch = self.headers.get("idempotency-key"), self.headers.get("x-quarterdeck-epoch")
        body = json.loads(self.body) if self.body else None
        return self.books.apply({"path": self.path, "method": self.command, "key": key, "epoch": epoch, "body": body})

    def _answer(self, status: int, value: Any = None, *, raw: bytes | None = None, **headers: str) -> None:
        data = raw if raw is not None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.close()

    def do_ok(self) -> None:
        self._answer(200, self._apply(), location="/thing/1")

    def do_echo(self) -> None:
        body = json.loads(self.body) if self.body else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._answer(200, {"method": self.command, "path": self.path, "headers": headers, "body": body})

    def do_keyed(self) -> None:
        """Deduplicate by key, as a good service does: done → the same answer."""
        known = self.books.answers.get(self.headers.get("idempotency-key") or "")
        self._answer(200, known if known is not None else self._apply())

    def do_keyed_drop(self) -> None:
        known = self.books.answers.get(self.headers.get("idempotency-key") or "")
        if known is not None:
            return self._answer(200, known)
        self._apply()
        return self._drop()

    def do_keyed_hang(self) -> None:
        """Do it once by key, and answer only whoever asks again."""
        known = self.books.answers.get(self.headers.get("idempotency-key") or "")
        if known is None:
            self._apply()
            time.sleep(HANG_S)
        self._answer(200, known)

    def do_versioned(self) -> None:
        """A thing whose version stands in a header alone; each write that is no GET or HEAD makes the next one."""
        if self.command not in ("GET", "HEAD"):
            self._apply()
        with open(self.books.path, encoding="utf-8") as log:
            version = 1 + sum(json.loads(line)["path"] == self.path for line in log)
        self._answer(200, {"thing": self.rest}, etag=f'"v{version}"', set_cookie="session=1")

    def do_lookup(self) -> None:
        known = self.books.answers.get(self.rest)
        self._answer(200, {"found": known is not None, "answer": known})

    def do_hang_before(self) -> None:
        time.sleep(HANG_S)

    def do_hang_after(self) -> None:
        self._apply()
        time.sleep(HANG_S)

    def do_drop_before(self) -> None:
        self._drop()

    def do_drop_after(self) -> None:
        self._apply()
        self._drop()

    def do_cut(self) -> None:
        """Promise more than is sent."""
        self._apply()
        self.wfile.write(b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"half":')
        self._drop()

    def do_status(self) -> None:
        status = int(self.rest)
        if self.query.get("apply"):
            self._apply()
        extra: dict[str, Any] = {"retry_after": self.query["retry_after"]} if "retry_after" in self.query else {}
        self._answer(status, {"title": "No", "detail": self.query.get("detail", "no"), "code": "it_said_no"}, **extra)

    def do_garbage(self) -> None:
        self._apply()
        self._answer(200, raw=b"<html>it works</html>")

    def do_raw(self) -> None:
        texts = {
            "nan": b'{"a":NaN}',
            "surrogate": b'{"a":"\\ud800"}',
            "twice": b'{"a":1,"a":2}',
            "latin": b'{"a":"\xe9"}',
            "nul": b'{"a":"\x00"}',
            "deep": b"[" * 40_000 + b"]" * 40_000,
        }
        self._apply()
        self._answer(200, raw=texts[self.rest])

    def do_huge(self) -> None:
        self._apply()
        self._answer(200, raw=b'{"a":"' + b"x" * 3_000_000 + b'"}')

    def do_drip(self) -> None:
        """Send a byte now and then, so that no single read ever takes long."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(300):
            self.wfile.write(b"1")
            self.wfile.flush()
            time.sleep(0.1)

    def do_gzip(self) -> None:
        self._apply()
        self._answer(200, raw=b"\x1f\x8b\x08", content_encoding="gzip")

    def do_redirect(self) -> None:
        self._answer(int(self.query.get("status", "302")), {}, location=self.query["to"])

    def do_empty(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_moody(self) -> None:
        """Misbehave by ``seed``, by what is asked for and by how often it was asked for; ``keyed`` deduplicates."""
        order = json.loads(self.body)["order"]
        with self.books.lock:
            self.books.asked[f"{self.rest}:{order}"] += 1
            count = self.books.asked[f"{self.rest}:{order}"]
            known = self.books.answers.get(self.headers.get("idempotency-key") or "") if "keyed" in self.query else None
        calm = os.path.exists(f"{self.books.path}.calm")
        mood = _MOODS[0] if calm else _mood(f"{self.query['seed']}:{self.rest}:{order}:{count}")
        if mood == "slow":
            time.sleep(1.0)
        if mood in ("drop_before", "busy", "error_before"):
            return self._drop() if mood == "drop_before" else self._answer(429 if mood == "busy" else 500, {})
        answer = known if known is not None else self._apply()
        if mood == "hang_after":
            time.sleep(6.0)
        if mood == "drop_after":
            return self._drop()
        if mood == "garbage":
            return self._answer(200, raw=b"<html>it works</html>")
        return self._answer(500 if mood == "error_after" else 200, answer)

    def do_unknown(self) -> None:
        self._answer(404, {"detail": "no such behaviour"})


_MOODS = ("good", "slow", "busy", "drop_before", "drop_after", "error_before", "error_after", "garbage", "hang_after")


def _mood(seed: str) -> str:
    return random.Random(seed).choices(_MOODS, (80, 4, 4, 2, 3, 2, 2, 1, 2))[0]


class HttpTool:
    """Handle of a running service: ``with HttpTool(tmp_path) as tool``."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "effects.jsonl"
        self.log.touch()

    def __enter__(self) -> HttpTool:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.http_tool", str(self.log)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End the service at once; its port then refuses connections."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def calm(self) -> None:
        """Let ``/moody`` behave from now on."""
        Path(f"{self.log}.calm").touch()

    def effects(self) -> list[dict[str, Any]]:
        """What the service did, in order."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def contract(self, path: str, *, writes: bool = True, config: dict[str, Any] | None = None, **more: Any) -> Any:
        """Return the JSON of a contract whose address is ``path`` of this service."""
        return {
            "name": "shop.call",
            "version": 1,
            "adapter": "http",
            "config": {"method": "POST" if writes else "GET", "url": f"http://{self.host}{path}", **(config or {})},
            "input_schema": {"type": "object"},
            "side_effect": "write" if writes else "read",
            "recovery": "human" if writes else "replayable",
            "targets": [self.host],
            "timeout_s": 10,
            **more,
        }


def main() -> None:
    """Serve until the parent is gone."""
    _Handler.books = _Books(sys.argv[1])
    server = _Server(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


if __name__ == "__main__":
    main()
