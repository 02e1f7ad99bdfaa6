"""The context e of a task: its text as a unit vector of a sentence-transformers model.

The model reads only the beginning of a long text: all-MiniLM-L6-v2 reads 256 word pieces, about 200 English
words. A cached text keeps its vector exactly. Computed again in another batch, the vector may differ by 1e-7,
so every round stores the vector that it used.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np

from backend.errors import EmbedderError
from backend.models.embedder.sentence_model import PACKAGED, encode_texts, load_model, model_identity
from backend.models.embedder.vector_cache import VectorCache
from camvo.typing import Array

_BATCH = 32


class Embedder:
    """A sentence embedder, one per process, loaded on first use.

    The model is searched for in this order: a local folder, the installed package (default model only), the
    model hub's local cache, the model hub.

    Blocking methods may be called from any thread, :meth:`vector` from one event loop. Load the model after a
    fork, never before it, because torch does not survive a fork.

    Args:
        name: a local folder or a name on the model hub.
        local_files_only: never contact the hub; without a network this takes a minute to fail.
        threads: CPU threads for torch in the whole process. Use 1 if several workers share the machine.
        remembered: the number of texts whose vectors are cached (3 kB each at d = 384).
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
        self._cache = VectorCache(remembered)
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
        """The model's name and the first 12 hexadecimal digits of its weights' SHA-256; part of every epoch.

        The identity does not depend on where the weights are. The first access hashes them, and downloads
        them if they are not on this machine. After :meth:`load` it never blocks.

        Raises:
            EmbedderError: the model is not available.
        """
        if self._identity is None:
            try:
                self._identity = model_identity(self._name)
            except EmbedderError:
                self.load()
        return str(self._identity)

    @property
    def dimension(self) -> int:
        """The length d of a vector. The first access loads the model; later ones never block.

        Raises:
            EmbedderError: the model is not available.
        """
        if self._model is None:
            self.load()
        return self._dimension

    def load(self) -> None:
        """Load the model and hash its weights, so that no task has to wait for it. Blocks for some seconds.

        Raises:
            EmbedderError: the model is not available.
        """
        with self._lock:
            if self._model is None:
                model = load_model(self._name, local_files_only=self._local, threads=self._threads)
                self._dimension = encode_texts(model, ["dimension"]).shape[1]
                self._identity = model_identity(self._name)
                self._model = model

    def embed(self, texts: Sequence[str]) -> Array:
        """Return the texts' unit vectors, shape (n, d), float64 with exact float32 values. Blocks.

        Raises:
            EmbedderError: the model is not available, or returned vectors that are not unit vectors.
        """
        return np.stack(self._rows(texts)) if texts else np.empty((0, self.dimension))

    async def vector(self, text: str) -> Array:
        """Return one text's unit vector, shape (d,), read-only.

        Texts that are requested during a computation share the next batch of up to 32.

        Raises:
            EmbedderError: as for :meth:`embed`, or the embedder is closed.
        """
        if (row := self._cache.get(text)) is not None:
            return row
        if self._closed:
            raise EmbedderError("the embedder has been closed", where=self._name)
        self._enqueue(text)
        # a cancelled caller must not cancel the future that other callers await
        return await asyncio.shield(self._waiting[text])

    def expect(self, texts: Sequence[str]) -> None:
        """Begin to embed texts that will soon be asked for; called on the event loop.

        A text alone takes twice the time that it takes in a batch.
        """
        for text in texts:
            if not self._closed and self._cache.get(text) is None:
                self._enqueue(text)

    def _enqueue(self, text: str) -> None:
        if text in self._waiting:
            return
        self._waiting[text] = asyncio.get_running_loop().create_future()
        # asyncio would log an error that nobody waits for
        self._waiting[text].add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._worker is None or self._worker.done():
            # it starts in the loop's next turn and takes all texts requested in this turn
            self._worker = asyncio.create_task(self._work())

    def close(self) -> None:
        """Finish the running batch and end the thread; :meth:`embed` still works afterwards."""
        self._closed = True
        self._executor.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while texts := list(islice(self._waiting, _BATCH)):
                futures = [self._waiting.pop(text) for text in texts]
                try:
                    rows = await loop.run_in_executor(self._executor, self._rows, texts)
                except Exception as error:  # raised for the waiting callers instead
                    for future in futures:
                        future.set_exception(_embedder_error(error, self._name))
                else:
                    for future, row in zip(futures, rows, strict=True):
                        future.set_result(row)
        finally:
            # futures are only left if the loop ends; a later loop must not await them
            self._waiting.clear()

    def _rows(self, texts: Sequence[str]) -> list[Array]:
        with self._lock:
            rows = {text: row for text in texts if (row := self._cache.get(text)) is not None}
            if new := [text for text in dict.fromkeys(texts) if text not in rows]:
                self.load()
                for text, row in zip(new, encode_texts(self._model, new), strict=True):
                    rows[text] = self._cache.add(text, row)
        return [rows[text] for text in texts]


def _embedder_error(error: Exception, name: str) -> EmbedderError:
    if isinstance(error, EmbedderError):
        return error
    return EmbedderError("the embedder has been closed", where=name)
