"""Watching the server while it answers one long request, so that progress and dollars show at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from backend.commands.connect.backend_answers import Progress
from backend.errors import BackendError

EVERY = 1.0
"""Seconds between two looks."""


class Watched(Protocol):
    """The server, as far as it is watched."""

    def progress(
        self, project_key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        """Return how far the project is."""


@contextmanager
def watching(
    server: Watched,
    project_key: str,
    tasks: range,
    show: Callable[[Progress], object],
    every: float = EVERY,
) -> Iterator[None]:
    """Look at a project's progress every second, in a thread, until the block ends.

    A look that fails is left out: the block's own request says what is wrong.

    Args:
        server: the server.
        project_key: the project's key.
        tasks: the numbers of the tasks to count.
        show: called with each progress, in the thread.
        every: seconds between two looks.
    """
    over = threading.Event()
    try:
        before = server.progress(project_key).last_round
    except BackendError:
        yield
        return

    def look() -> None:
        while not over.wait(every):
            try:
                show(server.progress(project_key, tasks.start, tasks.stop - 1, before))
            except BackendError:
                continue

    thread = threading.Thread(target=look, name="camvo-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
