"""Workers of a server whose ``CAMVO_TEST_FIRST`` this is look every second whether a recount is worth it."""

from __future__ import annotations

import os


def _hurry() -> None:
    from backend.recounting import automatic  # noqa: PLC0415 - heavy, and not for the master

    automatic._PAUSE, automatic._REST = 1.0, 0.0


os.register_at_fork(after_in_child=_hurry)
