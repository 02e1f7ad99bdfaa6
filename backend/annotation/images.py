"""Images on their way to a model: the web's are named to it, those in Label Studio are sent along."""

from __future__ import annotations

import asyncio
import base64
from posixpath import normpath
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from backend.errors import ImageUnavailableError
from backend.label_studio.client import http_client
from backend.questions import TaskQuestion

_MOST_BYTES = 20 * 1024 * 1024
"""What providers take at the most."""

_SECONDS = 15.0

_UPLOADS = "/data/"
"""Where Label Studio serves uploaded and local files, to those who may see them."""


class Images:
    """Finds the address under which a model can see an image.

    An address of the task's is never fetched, only passed on: whoever writes the tasks could have the server
    look around in its own network. The one exception is Label Studio itself, under the address and with the
    key of the environment, and there only what lies below ``/data/``.

    Args:
        url: Label Studio's address.
        key: a token of Label Studio's.
    """

    def __init__(self, url: str | None = None, key: SecretStr | None = None) -> None:
        self._url, self._key = (url or "").rstrip("/"), key
        self._http: Any = None

    async def shown(self, question: TaskQuestion) -> TaskQuestion:
        """A question with its images where models can see them.

        Raises:
            ImageUnavailableError: one of them no model could see.
        """
        found = {key: await self.sendable(image, f"data.{key}") for key, image in question.images.items()}
        return question.showing(found)

    async def sendable(self, address: str, where: str) -> str:
        """The address itself, or the image in a ``data:`` URL.

        Args:
            address: what the task's data holds.
            where: the place that an error names.

        Raises:
            ImageUnavailableError: no model could see it.
        """
        path = self._path(address.strip())
        if path is not None:
            return await asyncio.to_thread(self._fetch, path, where)
        if address.strip().lower().startswith(("http://", "https://", "data:image/")):
            return address.strip()
        raise ImageUnavailableError(
            "the image is neither on the web nor in Label Studio",
            where=where,
            fix="import an http(s) address or an uploaded file; for cloud storage, presign the addresses",
        )

    def _path(self, address: str) -> str | None:
        """Path and query of a file in Label Studio; ``None`` for an image that is elsewhere."""
        found = address.removeprefix(self._url)
        if not found.startswith(_UPLOADS) or not normpath(unquote(urlsplit(found).path)).startswith(_UPLOADS):
            return None
        return found

    def _fetch(self, path: str, where: str) -> str:
        if not self._url or self._key is None:
            raise ImageUnavailableError(
                "the image is in Label Studio, which the backend has no access to",
                where=where,
                fix="set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY",
            )
        try:
            kind, content = self._download(path, self._key)
        except Exception as error:  # the SDK lets httpx's errors through, and has its own
            reason = type(error).__name__
            raise ImageUnavailableError(
                f"Label Studio did not send the image ({reason})", where=where, fix="see whether it shows it"
            ) from None
        if not kind.startswith("image/") or len(content) > _MOST_BYTES:
            raise ImageUnavailableError(
                "Label Studio sent no image, or one of more than 20 MB",
                where=where,
                fix="see whether the owner of LABEL_STUDIO_API_KEY may open it",
            )
        return f"data:{kind};base64,{base64.b64encode(content).decode()}"

    def _download(self, path: str, key: SecretStr) -> tuple[str, bytes]:
        """The content's type, and the content up to one byte too many."""
        if self._http is None:
            self._http = http_client(self._url, key, _SECONDS)
        content = bytearray()
        with self._http.stream(path, method="GET") as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > _MOST_BYTES:
                    break
            return str(response.headers.get("content-type", "")).partition(";")[0].strip(), bytes(content)
