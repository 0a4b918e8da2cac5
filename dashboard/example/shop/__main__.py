"""Runs the shop: ``python -m dashboard.example.shop --port N --books FILE``."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time

from dashboard.example.shop.server import serve


def main() -> None:
    """Serve until ended; whoever started it being gone ends it too."""
    parser = argparse.ArgumentParser(description="The shop of the example tenant.")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one")
    parser.add_argument("--books", required=True)
    parser.add_argument("--tell-port", action="store_true", help="write the port to standard output once it listens")
    options = parser.parse_args()
    shop = serve(options.port, options.books)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    if options.tell_port:
        sys.stdout.write(f"{shop.server_address[1]}\n")
        sys.stdout.flush()
    shop.serve_forever(poll_interval=0.2)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)


if __name__ == "__main__":
    main()
