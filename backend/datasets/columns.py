"""The columns of a dataset, and what kind of values each holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.errors import DatasetError

_MOST = 2_000
"""The most columns: more are a sign of objects whose keys are data."""


class Columns:
    """Gathers the columns of rows: their names in order of appearance, and the types of their values."""

    def __init__(self) -> None:
        self._types: dict[str, set[type]] = {}

    def add(self, data: Mapping[str, Any]) -> None:
        """Take one row into account.

        Raises:
            DatasetError: there are too many columns.
        """
        for name, value in data.items():
            types = self._types.setdefault(name, set())
            if value is not None:
                types.add(type(value))
        if len(self._types) > _MOST:
            raise DatasetError(
                f"has more than {_MOST:,} columns", where="columns", fix="give all rows the same columns"
            )

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._types)

    def kind(self, name: str) -> type | None:
        """The type of a column's values; ``float`` for a mix with ``int``, ``None`` for any other mix."""
        types = self._types[name]
        if types == {int, float}:
            return float
        return next(iter(types)) if len(types) == 1 else None
