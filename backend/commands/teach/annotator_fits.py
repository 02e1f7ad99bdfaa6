"""How often each annotator is right, fitted after a file was taught, as a server does it after webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from backend.learning.annotators.reliability_fits import ReliabilityFits, is_due
from backend.ledger import Ledger, Writer
from backend.settings import Settings


def fit_annotators(ledger: Ledger, project: str, settings: Settings, clock: Callable[[], float]) -> None:
    """Fit the annotators of a project if enough labels have changed, and correct what people say of tasks.

    Args:
        ledger: the ledger.
        project: the project's key.
        settings: the server's settings.
        clock: unix seconds.
    """
    writer = Writer(ledger)
    try:
        with ThreadPoolExecutor(1) as readers:
            fits = ReliabilityFits(ledger, writer, readers, settings, clock)
            asyncio.run(_fit(fits, project))
    finally:
        writer.close()


async def _fit(fits: ReliabilityFits, project: str) -> None:
    if is_due(*await fits.annotations(project)):
        await fits.fit(project)
