"""Undoing changes in Label Studio, the latest first."""

from __future__ import annotations

from collections.abc import Callable

from backend.errors import LabelStudioError

Say = Callable[[str, str], None]
"""Called with the name of a part, and what was done to it or that it was up to date."""


class Undo:
    """A list of steps that take changes back.

    Args:
        say: called for each step that was taken, or that failed.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._steps: list[tuple[str, str, Callable[[], object]]] = []

    def add(self, name: str, text: str, step: Callable[[], object]) -> None:
        """Remember how to take back a change that was made just now.

        Args:
            name: the part that changed.
            text: what is said once the step was taken.
            step: takes the change back.
        """
        self._steps.append((name, text, step))

    def __call__(self) -> None:
        """Take all changes back. A step that fails does not keep the others from being taken."""
        while self._steps:
            name, text, step = self._steps.pop()
            try:
                step()
            except LabelStudioError as error:
                self._say(name, f"could not be undone: {error}")
            else:
                self._say(name, f"undone: {text}")
