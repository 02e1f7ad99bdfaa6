"""Counts of units per sixtieth of a window, for the last two windows."""

from __future__ import annotations

from collections.abc import Mapping

BINS = 60
"""Bins per window: a bin of the usual window of a minute is a second."""

LONG_AGO = -1e12
"""A time before all others. JSON has no infinity."""


class Counts:
    """How many units were counted when.

    Args:
        window: seconds.
        bins: bin number, as text → units, as :attr:`bins` returned them.
    """

    def __init__(self, window: float, bins: Mapping[str, float] | None = None) -> None:
        self._width = window / BINS
        self._bins = {int(number): units for number, units in (bins or {}).items()}

    @property
    def bins(self) -> dict[str, float]:
        """The bins, as JSON can hold them."""
        return {str(number): units for number, units in self._bins.items()}

    def add(self, now: float, units: float) -> None:
        """Count units now, and forget what is older than two windows."""
        number = int(now / self._width)
        self._bins = {other: held for other, held in self._bins.items() if other > number - 2 * BINS}
        self._bins[number] = self._bins.get(number, 0.0) + units

    def take_back(self, units: float) -> None:
        """Remove units that were counted last."""
        for number in sorted(self._bins, reverse=True):
            removed = min(units, self._bins[number])
            self._bins[number] -= removed
            units -= removed
            if units <= 0.0:
                return

    def since(self, start: float) -> float:
        """Return the units counted since a time; the bin around that time counts by its later part."""
        return sum(
            units * min(1.0, max(0.0, number + 1 - start / self._width))
            for number, units in self._bins.items()
        )

    def at_most_since(self, start: float) -> float:
        """Return the most units that can have been counted since a time."""
        return sum(units for number, units in self._bins.items() if (number + 1) * self._width > start)
