"""Models that need no key and no network: the pool when nothing else is configured.

They are zero-shot voters over the sentence embedder and over plain words, asked through litellm as
``embedded/<name>`` like any other model. They are weak, and their prices are nominal: spread like those of
real models, so that a dear vote and a cheap one differ, and paid by nobody.
"""

from __future__ import annotations

from backend.embedding import Embedder
from backend.settings import ModelSettings

_PRICES = {
    "overlap": (0.05, 0.20),
    "keywords": (0.10, 0.40),
    "label-name": (0.20, 0.80),
    "label-sentence": (0.40, 1.60),
    "hints": (0.80, 3.20),
    "sentences": (1.50, 6.00),
    "everything": (3.00, 12.00),
}
"""$ per million input and output tokens."""

DEFAULT_MODELS: tuple[ModelSettings, ...] = tuple(
    ModelSettings(name=name, model=f"embedded/{name}", input_price=per_input, output_price=per_output)
    for name, (per_input, per_output) in _PRICES.items()
)
"""All of them with their nominal prices, the cheapest first."""


def register(embedder: Embedder) -> None:
    """Let litellm answer for ``embedded/…`` with this embedder; once per process, a later one replaces it.

    Imports litellm (seconds). Call it before a pool is asked; it loads no embedding model yet.
    """
    from backend.embedded_voters import provider  # noqa: PLC0415 - it imports litellm's side

    provider.install(embedder, DEFAULT_MODELS)
