"""Images for models, with files from a server that serves them as Label Studio does."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from local_server import Handler, LocalServer
from pydantic import SecretStr

from backend.annotation.job_questions import Images
from backend.errors import ImageUnavailableError

PNG = b"\x89PNG not much of a picture"
KEY = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Files:
    """The requests that the server received: path and token."""

    url: str
    asked: list[tuple[str, str]] = field(default_factory=list)

    def sendable(self, address: str, url: str | None = "own", key: str | None = KEY) -> str:
        images = Images(self.url if url == "own" else url, None if key is None else SecretStr(key))
        return asyncio.run(images.sendable(address, "data.photo"))


@pytest.fixture
def files() -> Iterator[Files]:
    class Storage(Handler):
        def respond(self) -> None:
            served.asked.append((self.path, self.headers.get("authorization", "")))
            kind, body = "image/png", PNG
            if self.path.endswith("secret.html"):
                kind = "text/html; charset=utf-8"
            if self.path.endswith("huge.png"):
                body = bytes(21 * 1024 * 1024)
            status = {"gone.png": 404, "moved.png": 302}.get(self.path.rpartition("/")[2], 200)
            self.answer(status, body, kind, location=f"{served.url}/data/upload/1/cat.png")

    with LocalServer(Storage) as server:
        served = Files(server.url)
        yield served


@pytest.mark.parametrize(
    "address", ["https://example.org/cat.jpg", "HTTP://example.org/a?b=c", "data:image/gif;base64,AA=="]
)
def test_an_address_on_the_web_is_passed_on_and_never_fetched(files: Files, address: str) -> None:
    assert files.sendable(address) == address
    assert files.asked == []


@pytest.mark.parametrize("path", ["/data/upload/1/cat.png", "/data/local-files/?d=cats/cat.png"])
def test_a_file_of_label_studio_s_is_sent_along(files: Files, path: str) -> None:
    expected = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert files.sendable(path) == files.sendable(f"{files.url}{path}") == expected
    assert files.asked == [(path, f"Token {KEY}")] * 2


@pytest.mark.parametrize("before", ["", "/ls", "{url}/ls"])
def test_a_file_of_a_label_studio_below_a_path_is_sent_along(files: Files, before: str) -> None:
    path, own = "/data/upload/1/cat.png", f"{files.url}/ls"
    assert files.sendable(before.format(url=files.url) + path, url=own).startswith("data:image/png;base64,")
    assert files.asked == [(f"/ls{path}", f"Token {KEY}")]


@pytest.mark.parametrize("name", ["secret.html", "huge.png", "gone.png", "moved.png"])
def test_a_file_that_is_not_an_image_is_not_sent(files: Files, name: str) -> None:
    with pytest.raises(ImageUnavailableError):
        files.sendable(f"/data/upload/1/{name}")
    assert len(files.asked) == 1


@pytest.mark.parametrize(
    "address",
    ["/api/users", "/data/../api/users", "/data/%2e%2e/api/users", "/data", "//example.org/data/x.png"],
)
def test_nothing_else_of_label_studio_s_is_fetched(files: Files, address: str) -> None:
    with pytest.raises(ImageUnavailableError):
        files.sendable(address)
    assert files.asked == []


def test_another_server_s_files_are_not_fetched_with_the_key(files: Files) -> None:
    address = f"{files.url}/data/upload/1/cat.png"
    assert files.sendable(address, url="http://127.0.0.1:1") == address
    assert files.asked == []


@pytest.mark.parametrize(("url", "key"), [(None, KEY), ("own", None)])
def test_without_address_and_key_the_error_says_what_to_set(
    files: Files, url: str | None, key: str | None
) -> None:
    with pytest.raises(ImageUnavailableError, match="LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY"):
        files.sendable("/data/upload/1/cat.png", url=url, key=key)


def test_an_error_does_not_repeat_the_address(files: Files) -> None:
    with pytest.raises(ImageUnavailableError) as caught:
        files.sendable("s3://bucket/patient-17.png")
    assert "patient" not in str(caught.value)
    assert caught.value.where == "data.photo"
