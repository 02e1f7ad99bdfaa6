"""The most recently used vectors, by text."""

from __future__ import annotations

import threading
from collections import OrderedDict

from camvo.typing import Array


class VectorCache:
    """A least-recently-used cache: text → vector.

    Its lock is only held for a look-up, so the event loop may call it.

    Args:
        size: the number of texts whose vectors are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: OrderedDict[str, Array] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, text: str) -> Array | None:
        """Return a text's vector, read-only; ``None`` if it is not cached."""
        with self._lock:
            if text in self._rows:
                self._rows.move_to_end(text)
            return self._rows.get(text)

    def add(self, text: str, row: Array) -> Array:
        """Cache a text's vector and return it as a read-only copy."""
        copy = row.copy()  # a view would keep the whole batch in memory
        copy.setflags(write=False)  # all callers share it
        with self._lock:
            self._rows[text] = copy
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)
        return copy
