"""How the heavy libraries are imported, and spared from garbage collections afterwards."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Import libraries inside without garbage collections, in four fifths of the time.

    Collections would walk over hundreds of thousands of new objects again and again and free next to nothing;
    so what is there at the end is left out of later ones, too. Blocks of several threads may overlap: the
    thread that switched collections off switches them on.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.freeze()
            gc.enable()


@functools.cache
def spare_the_libraries() -> None:
    """Leave what is loaded by now out of garbage collections, once for a process.

    The libraries are three quarters of a million objects: to walk over them takes half a second, and nothing
    else runs meanwhile.
    """
    gc.freeze()
