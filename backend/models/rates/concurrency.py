"""How many calls of one process may be under way at once, for models whose provider never refuses."""

from __future__ import annotations

from typing import Final

START: Final = 20
MOST: Final = 512
"""The first and the highest number of calls at once."""

_QUICK = 0.25
_NOTICEABLY_SLOWER = 2.0


class Concurrency:
    """The calls under way, and how many may be.

    The number doubles from one generation of calls to the next, as long as answers are quick: they take less
    than a quarter of the model's ``timeout``, or less than twice the shortest answer. A local server that
    answers one call after another thus never has so many waiting that they time out. A call that does time
    out halves the number.

    Args:
        timeout: seconds that one call may take.
        most: the most calls at once by the settings, which is then also the first number; ``None`` to begin
            with :data:`START` and to go up to :data:`MOST`.
    """

    def __init__(self, timeout: float, most: int | None) -> None:
        self._timeout = timeout
        self._most = float(MOST if most is None else most)
        self.limit = float(START if most is None else most)
        self.under_way = 0
        self._shortest = float("inf")
        self._until_next_halving = 0

    @property
    def free(self) -> bool:
        """Whether another call may start."""
        return self.under_way < int(self.limit)

    def started(self) -> None:
        """Count a call that starts."""
        self.under_way += 1

    def ended(self) -> None:
        """Count a call that has ended."""
        self.under_way -= 1

    def answered(self, seconds: float) -> None:
        """Take in the duration of an answer, before :meth:`ended`."""
        self._until_next_halving -= 1
        self._shortest = min(self._shortest, seconds)
        quick = seconds < max(_QUICK * self._timeout, _NOTICEABLY_SLOWER * self._shortest)
        if quick and 2 * self.under_way >= self.limit:
            self.limit = min(self.limit + 1.0, self._most)

    def timed_out(self) -> None:
        """Halve the number. The calls that started with this one do not halve it again."""
        if self._until_next_halving <= 0:
            self.limit = max(1.0, self.limit / 2)
            self._until_next_halving = self.under_way
        else:
            self._until_next_halving -= 1
