"""JSON Lines, and Label Studio's import format."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from backend.datasets.sinks.result import Result
from backend.datasets.sinks.whole_file import WholeFile


class JsonLinesSink:
    """One JSON object per line: the row's columns and those that CaMVo adds."""

    def __init__(self, path: Path) -> None:
        self._whole = WholeFile(path)

    def __enter__(self) -> JsonLinesSink:
        self._file = self._whole.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._whole.__exit__(kind, error, trace)

    def write(self, result: Result) -> None:
        """Write one line."""
        self._file.write(_json(result.row) + b"\n")


class LabelStudioSink:
    """An array of tasks with predictions, as Label Studio imports it."""

    def __init__(self, path: Path) -> None:
        self._whole = WholeFile(path)

    def __enter__(self) -> LabelStudioSink:
        self._file = self._whole.__enter__()
        self._before = b"[\n"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._file.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
        self._whole.__exit__(kind, error, trace)

    def write(self, result: Result) -> None:
        """Write one task; its data are the row's columns, and the keys that the label config reads."""
        task = {"data": {**result.data, **result.content}, "predictions": list(result.predictions)}
        self._file.write(self._before + _json(task))
        self._before = b",\n"


def _json(value: object) -> bytes:
    # Lone surrogates, which JSON allows, have no UTF-8; they are written as escapes.
    text = json.dumps(value, ensure_ascii=False, default=str)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=str).encode()
