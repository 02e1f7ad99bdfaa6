"""A journal that survives the processes that write to it: one JSON object a line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Journal:
    """One file, to which several processes append; the order of its lines is the order of the events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, kind: str, **details: object) -> None:
        """Append one event. Once this returns, the event stays, even if the process is killed."""
        os.write(self._file, (json.dumps({"kind": kind, **details}) + "\n").encode())

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind, in order."""
        events = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [event for event in events if event["kind"] == kind]

    def close(self) -> None:
        os.close(self._file)
