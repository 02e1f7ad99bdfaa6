"""The context e of a task: its text as a unit vector, by a sentence-transformers model.

A text longer than the model's window counts only as far as the window goes: all-MiniLM-L6-v2 reads the
first 256 word pieces, about 200 English words. The same text gives the same vector for as long as it is
remembered; computed again in another batch it may differ by 1e-7, so a round stores the vector it used.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from backend.errors import EmbedderError
from backend.models.embedder.sentence_model import PACKAGED, encode, identity, open_model
from camvo.typing import Array

_BATCH = 32


class Embedder:
    """A sentence embedder, one per process, loaded when it is first needed.

    ``name`` is looked for as a folder, then (the default only) in the installed package, then in the model
    hub's local cache, then on the hub. Blocking methods may be called from any thread; :meth:`vector` from
    one event loop. Load it after a fork, never before: torch does not survive one.

    Args:
        name: a local folder or a name on the model hub.
        local_files_only: never ask the hub; without a network that takes a minute to fail.
        threads: CPU threads for torch, process-wide. One is best where several workers share the machine.
        remembered: how many texts keep their vectors (3 kB each at d = 384), the latest used ones.
    """

    def __init__(
        self,
        name: str = PACKAGED,
        *,
        local_files_only: bool = False,
        threads: int = 1,
        remembered: int = 4096,
    ) -> None:
        self._name, self._local, self._threads = name, local_files_only, threads
        self._model: Any = None
        self._dimension = 0
        self._identity: str | None = None
        self._lock = threading.RLock()
        self._memory = _Memory(remembered)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="camvo-embedder")
        self._closed = False
        self._waiting: dict[str, asyncio.Future[Array]] = {}
        self._worker: asyncio.Task[None] | None = None

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory; never blocks."""
        return self._model is not None

    @property
    def identity(self) -> str:
        """Name and the first 12 hexadecimal digits of the weights' SHA-256; part of every epoch.

        The same weights have the same identity from whatever place they come. The first look hashes them,
        and fetches them where they are not on this machine; once :meth:`load` is through, none blocks.

        Raises:
            EmbedderError: the model is not to be had.
        """
        if self._identity is None:
            try:
                self._identity = identity(self._name)
            except EmbedderError:
                self.load()
        return str(self._identity)

    @property
    def dimension(self) -> int:
        """Length d of a vector; the first look loads the model, later ones never block.

        Raises:
            EmbedderError: the model is not to be had.
        """
        if self._model is None:
            self.load()
        return self._dimension

    def load(self) -> None:
        """Load the model and hash its weights, so that no task waits for it (some seconds, once). Blocks.

        Raises:
            EmbedderError: the model is not to be had.
        """
        with self._lock:
            if self._model is None:
                model = open_model(self._name, local_files_only=self._local, threads=self._threads)
                self._dimension = encode(model, ["dimension"]).shape[1]
                self._identity = identity(self._name)
                self._model = model

    def embed(self, texts: Sequence[str]) -> Array:
        """The texts' vectors, shape (n, d): unit rows of float64 that are exactly float32 values. Blocks.

        Raises:
            EmbedderError: the model is not to be had, or gave something that is no unit vector.
        """
        return np.stack(self._rows(texts)) if texts else np.empty((0, self.dimension))

    async def vector(self, text: str) -> Array:
        """One text's vector, shape (d,), read-only. Texts asked for meanwhile share one batch of up to 32.

        Raises:
            EmbedderError: as :meth:`embed`, or the embedder has been closed.
        """
        if (row := self._memory.recall(text)) is not None:
            return row
        if self._closed:
            raise EmbedderError("the embedder has been closed", where=self._name)
        if text not in self._waiting:
            self._waiting[text] = asyncio.get_running_loop().create_future()
            if self._worker is None or self._worker.done():
                # it starts in the loop's next turn, with everybody who asked in this one
                self._worker = asyncio.create_task(self._work())
        # one caller that gives up does not take the vector from the others
        return await asyncio.shield(self._waiting[text])

    def close(self) -> None:
        """Let the batch under way finish and end the thread; :meth:`embed` goes on working."""
        self._closed = True
        self._executor.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while texts := list(islice(self._waiting, _BATCH)):
                futures = [self._waiting.pop(text) for text in texts]
                try:
                    rows = await loop.run_in_executor(self._executor, self._rows, texts)
                except Exception as error:  # it belongs to those who wait
                    for future in futures:
                        future.set_exception(_ours(error, self._name))
                else:
                    for future, row in zip(futures, rows, strict=True):
                        future.set_result(row)
        finally:
            # only a loop that ends leaves any, and the next loop must not wait for them
            self._waiting.clear()

    def _rows(self, texts: Sequence[str]) -> list[Array]:
        with self._lock:
            rows = {text: row for text in texts if (row := self._memory.recall(text)) is not None}
            if new := [text for text in dict.fromkeys(texts) if text not in rows]:
                self.load()
                for text, row in zip(new, encode(self._model, new), strict=True):
                    rows[text] = self._memory.keep(text, row)
        return [rows[text] for text in texts]


class _Memory:
    """The vectors of the texts used last; its lock is held for a look-up only, so the loop may ask."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: OrderedDict[str, Array] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, text: str) -> Array | None:
        with self._lock:
            if text in self._rows:
                self._rows.move_to_end(text)
            return self._rows.get(text)

    def keep(self, text: str, row: Array) -> Array:
        own = row.copy()  # a view would keep its whole batch in memory
        own.setflags(write=False)  # it is handed to everybody who asks for this text
        with self._lock:
            self._rows[text] = own
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)
        return own


def _ours(error: Exception, name: str) -> EmbedderError:
    if isinstance(error, EmbedderError):
        return error
    return EmbedderError("the embedder has been closed", where=name)
