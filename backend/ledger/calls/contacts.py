"""When a process last reached the ledger: one that is back after an outage takes over no claim at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Contacts:
    """When this process last reached the ledger.

    A process that is back after an outage takes over no claim for a while: the claim's owner could not renew
    it either, and may hold an answer that is not stored yet.

    Args:
        lease: seconds until a claim expires unless it is renewed.
        clock: monotonic seconds.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease, self._clock = lease, clock
        self._last = self._back = -math.inf

    def note(self) -> None:
        """Note that the ledger is reached."""
        at = self._clock()
        if math.isfinite(self._last) and at - self._last > 2 / 3 * self._lease:
            self._back = at
        self._last = at

    @property
    def grace(self) -> float:
        """Seconds for which expired claims of other owners are left alone."""
        return self._lease if self._clock() - self._back < self._lease else 0.0
