"""What each model of a votes table costs, in dollars per million input tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from backend.errors import ReplayError

KEY = "usd_per_million_input_tokens"
"""Where a JSON that says more about a table than its prices has them."""


def read(given: str | None, models: Sequence[str], table: Path) -> dict[str, float]:
    """The price of each model, in the order of ``models``.

    Args:
        given: what ``--prices`` says, the name of a JSON file or ``name=usd,…``; ``None`` is the JSON beside
            the table, of the same stem.
        models: the models of the table.
        table: the file with the votes.

    Raises:
        ReplayError: there are no prices, one is missing, is no price, or is for a model the table lacks.
    """
    where, prices = _given(given, table)
    checked = {}
    for name, price in prices.items():
        if name not in models:
            raise ReplayError(f"{name!r} is no model of {table}", where=where, fix=", ".join(models))
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0.0 <= price < math.inf:
            raise ReplayError(f"{price!r} is no price in dollars", where=f"{where}, {name}")
        checked[name] = float(price)
    for name in models:
        if name not in checked:
            raise ReplayError(f"no price for the model {name!r} of {table}", where=where)
    return {name: checked[name] for name in models}


def _given(given: str | None, table: Path) -> tuple[str, dict[str, object]]:
    """Where the prices are from, and what is there."""
    if given is not None and "=" in given and not Path(given).exists():
        return "--prices", _pairs(given)
    path = table.with_suffix(".json") if given is None else Path(given)
    return str(path), _file(path)


def _pairs(given: str) -> dict[str, object]:
    prices: dict[str, object] = {}
    for pair in given.split(","):
        name, equals, number = (part.strip() for part in pair.rpartition("="))
        if not (name and equals) or name in prices:
            raise ReplayError(f"{pair!r} is not one model=usd each", where="--prices")
        try:
            prices[name] = float(number)
        except ValueError as error:
            raise ReplayError(f"{number!r} is no price in dollars", where=f"--prices, {name}") from error
    return prices


def _file(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ReplayError(
            f"no prices: cannot be read ({error.strerror})",
            where=str(path),
            fix="--prices FILE or name=usd,…",
        ) from error
    except ValueError as error:
        raise ReplayError("is no JSON in UTF-8", where=str(path)) from error
    prices = content.get(KEY, content) if isinstance(content, dict) else content
    if not isinstance(prices, dict):
        raise ReplayError(f'needs {{"model": usd, …}}, by itself or under "{KEY}"', where=str(path))
    return prices
