"""The embedded voters with their nominal prices: the pool if ``camvo.yaml`` lists no models."""

from __future__ import annotations

from .models import ModelSettings

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
"""Every embedded voter, cheapest first."""
