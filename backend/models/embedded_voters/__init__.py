"""Models that need no key and no network: the pool when nothing else is configured.

They are zero-shot voters over the sentence embedder and over plain words, asked through litellm as
``embedded/<name>`` like any other model. They are weak, and their prices are nominal: spread like those of
real models, so that a dear vote and a cheap one differ, and paid by nobody.
"""

from __future__ import annotations

from backend.models.embedder.embedder import Embedder
from backend.settings.built_in_voters import DEFAULT_MODELS


def register(embedder: Embedder) -> None:
    """Let litellm answer for ``embedded/…`` with this embedder; once per process, a later one replaces it.

    Imports litellm (seconds). Call it before a pool is asked; it loads no embedding model yet.
    """
    from backend.models.embedded_voters import provider  # noqa: PLC0415 - it imports litellm's side

    provider.install(embedder, DEFAULT_MODELS)
