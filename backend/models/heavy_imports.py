"""Faster imports of heavy libraries, and garbage collections that skip their objects."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause garbage collection inside the block, which makes a heavy import a fifth faster.

    Collections during the import visit hundreds of thousands of new objects and free almost nothing. All
    objects that exist at the end of the block are excluded from later collections, too. Blocks of several
    threads may overlap: the thread that paused collection resumes it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


@functools.cache
def freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collections, once per process.

    The libraries have about 750,000 objects. A collection over them takes half a second and blocks everything
    else.
    """
    gc.freeze()
