"""An S3-compatible server in the test's own process: moto's, with a switch that refuses requests."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any
from unittest.mock import patch

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

Refuses = Callable[[str, str], bool]
"""Whether a request with this method and query is refused."""

_DENIED = b"<Error><Code>AccessDenied</Code><Message>hush-secret</Message></Error>"


class ObjectStore:
    """The server, with the bucket ``bucket`` and credentials for it in the environment. A context manager.

    Attributes:
        requests: the method and the query of each request.
        refuses: which requests are refused.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.refuses: Refuses = lambda method, query: False
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Quiet)

    def __enter__(self) -> ObjectStore:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        variables |= {
            "AWS_ACCESS_KEY_ID": "hush-id",
            "AWS_SECRET_ACCESS_KEY": "hush-secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
        }
        self._environment = patch.dict(os.environ, variables, clear=True)
        self._environment.__enter__()
        self.bucket.clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._environment.__exit__(kind, error, trace)
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """The server as options in an address's query."""
        return f"endpoint_override=127.0.0.1:{self._server.server_port}&scheme=http&region=us-east-1"

    @property
    def bucket(self) -> Any:
        """The bucket's objects by their names."""
        backend = s3_backends["123456789012"]["aws"]
        if "bucket" not in backend.buckets:
            backend.create_bucket("bucket", "us-east-1")
        return backend.buckets["bucket"].keys

    def objects(self, folder: str = "labels/") -> dict[str, bytes]:
        """The objects in a folder, without the one that stands for the folder itself."""
        found = {name.removeprefix(folder): key.value for name, key in self.bucket.items()}
        return {name: content for name, content in found.items() if name}

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, query = environ["REQUEST_METHOD"], environ["QUERY_STRING"]
        self.requests.append((method, query))
        if self.refuses(method, query):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [_DENIED]
        answer: Iterable[bytes] = self._moto(environ, start)
        return answer


class _Quiet(WSGIRequestHandler):
    def log(self, *arguments: object) -> None:
        """Say nothing."""
