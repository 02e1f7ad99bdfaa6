"""What a run has spent, and what it will have spent at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

from backend.ledger import Ledger
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars

_EVERY = 1.0
"""Seconds between two looks at the ledger."""


class Spending:
    """A project's account in the ledger, from the start of a run.

    Args:
        ledger: the ledger.
        project: the project's key.
        clock: seconds that only grow.
    """

    def __init__(self, ledger: Ledger, project: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger, self._project, self._clock = ledger, project, clock
        self._started_with = self._latest = self.in_all()
        self._looked_at = clock()

    def in_all(self) -> float:
        """What the project has cost over all runs, in $."""
        with self._ledger.read() as connection:
            return from_picodollars(accounts.balance(connection, self._project, accounts.TOTAL).spent)

    def in_this_run(self) -> float:
        """What it has cost since the start of the run, in $; a second old at most."""
        if self._clock() - self._looked_at >= _EVERY:
            self._latest, self._looked_at = self.in_all(), self._clock()
        return self._latest - self._started_with

    def so_far(self) -> str:
        """Say what this run has spent."""
        return f"${self.in_this_run():.2f} spent"

    def outlook(self, asked: int, left: int) -> str:
        """Say what is spent, and what is to come if the tasks left cost what those asked about did.

        Args:
            asked: tasks that this run asked about.
            left: tasks that it has not looked at yet.
        """
        if not asked:
            return self.so_far()
        return f"{self.so_far()}, about ${self.in_this_run() / asked * left:.2f} to come"
