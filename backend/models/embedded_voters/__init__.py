"""Models that need no key and no network: the pool when nothing else is configured.

They are zero-shot voters over the sentence embedder and over plain words. Like any other model they are
called through litellm, as ``embedded/<name>``, so they are counted, priced and limited in the same way. They
do not read the prompt: the call carries the questions themselves.

The voters are weak. Nobody pays their prices, which only differ as much as those of real models do.
"""

from __future__ import annotations

from backend.models.embedder.embedder import Embedder
from backend.settings.built_in_voters import DEFAULT_MODELS


def register(embedder: Embedder) -> None:
    """Let litellm answer calls to ``embedded/…`` with this embedder. A second call replaces the embedder.

    Call it before a pool is made. It imports litellm (seconds), but loads no embedding model.
    """
    from backend.models.embedded_voters.provider import install_provider  # noqa: PLC0415 - imports litellm

    install_provider(embedder, DEFAULT_MODELS)
