"""Libraries that only some formats need."""

from __future__ import annotations

from typing import Any

from backend.errors import DatasetError


def pyarrow_parquet() -> Any:
    """The module ``pyarrow.parquet``.

    Raises:
        DatasetError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: PLC0415 - an extra
    except ImportError:
        raise DatasetError(
            "Parquet needs pyarrow", where="[parquet]", fix="pip install 'camvo[parquet]'"
        ) from None
    return pyarrow.parquet
