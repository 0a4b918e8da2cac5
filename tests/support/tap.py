"""A network between a browser and a server that can stop answering: connections are taken, and nothing ever comes."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class Tap:
    """Passes on what comes to its own port on this machine, until it is held."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.held = False
        self.open: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self) -> Tap:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        _end(self.listener)
        self._cut()

    def hold(self) -> None:
        """Cut what is open; take new connections and answer none of them, not even after :meth:`release`."""
        self.held = True
        self._cut()

    def release(self) -> None:
        """Pass new connections on again."""
        self.held = False

    def _cut(self) -> None:
        for one in self.open:
            _end(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _address = self.listener.accept()
                self.open.append(near)
                if not self.held:
                    far = socket.create_connection(("127.0.0.1", self.target))
                    self.open.append(far)
                    for ends in ((near, far), (far, near)):
                        threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    _end(source)
    _end(target)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
