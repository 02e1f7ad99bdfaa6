"""A real HTTP server in front of the app of a test, and CaMVo's own client of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask
from werkzeug.serving import make_server

from backend.commands.shared.backend_client import BackendClient
from backend.settings import Environment


@contextmanager
def served(app: Flask) -> Iterator[BackendClient]:
    """A client of the app, which is served until the block ends."""
    http = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    client = BackendClient(f"http://127.0.0.1:{http.server_port}", Environment())
    try:
        yield client
    finally:
        client.close()
        http.shutdown()
        thread.join()
