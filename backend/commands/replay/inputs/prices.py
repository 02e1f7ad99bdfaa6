"""The price of each model of a votes table, in dollars per million input tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from backend.errors import ReplayError

KEY = "usd_per_million_input_tokens"
"""The key of the prices in a JSON file that describes more than the prices."""


def read_prices(option: str | None, models: Sequence[str], table: Path) -> dict[str, float]:
    """Read the price of each model, in the order of ``models``.

    Args:
        option: ``--prices``: the name of a JSON file, or ``name=usd,…``. ``None`` means the JSON file beside
            the table, with the same stem.
        models: the models of the table.
        table: the file with the votes.

    Raises:
        ReplayError: there are no prices, one is missing or invalid, or one is for a model the table lacks.
    """
    where, prices = _source(option, table)
    checked = {}
    for name, price in prices.items():
        if name not in models:
            raise ReplayError(
                f"{name!r} is not a model of {table}", where=where, fix=f"models: {', '.join(models)}"
            )
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0.0 <= price < math.inf:
            raise ReplayError(
                f"{price!r} is not a price in dollars", where=f"{where}, {name}", fix="give 0 or more"
            )
        checked[name] = float(price)
    for name in models:
        if name not in checked:
            raise ReplayError(
                f"no price for the model {name!r} of {table}", where=where, fix=f"add {name}=usd"
            )
    return {name: checked[name] for name in models}


def _source(option: str | None, table: Path) -> tuple[str, dict[str, object]]:
    """Return the source of the prices, for errors, and its unchecked content."""
    if option is not None and "=" in option and not Path(option).exists():
        return "--prices", _pairs(option)
    path = table.with_suffix(".json") if option is None else Path(option)
    return str(path), _file(path)


def _pairs(option: str) -> dict[str, object]:
    prices: dict[str, object] = {}
    for pair in option.split(","):
        name, equals, number = (part.strip() for part in pair.rpartition("="))
        if not (name and equals) or name in prices:
            raise ReplayError(
                f"{pair!r} is not one model=usd each", where="--prices", fix="give e.g. small=0.1,large=5"
            )
        try:
            prices[name] = float(number)
        except ValueError as error:
            raise ReplayError(
                f"{number!r} is not a price in dollars", where=f"--prices, {name}", fix="give a number"
            ) from error
    return prices


def _file(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ReplayError(
            f"no prices: cannot be read ({error.strerror})",
            where=str(path),
            fix="give --prices FILE.json or --prices name=usd,…",
        ) from error
    except ValueError as error:
        raise ReplayError("is not JSON in UTF-8", where=str(path), fix="correct the file") from error
    prices = content.get(KEY, content) if isinstance(content, dict) else content
    if not isinstance(prices, dict):
        raise ReplayError(f'needs {{"model": usd, …}}, by itself or under "{KEY}"', where=str(path))
    return prices
