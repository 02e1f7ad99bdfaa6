"""Lost calls: their process died, so that the money reserved for them was never settled."""

from __future__ import annotations

import asyncio

import structlog

from backend.errors import LedgerError
from backend.ledger import Writer
from backend.ledger.money import spending

_PAUSE = 60.0

_log = structlog.get_logger(__name__)


async def settle_lost_calls(writer: Writer) -> None:
    """Settle lost calls every minute until cancelled: what they reserved is booked as spent."""
    while True:
        try:
            await writer.run(spending.expire)
        except LedgerError as error:
            _log.error("lost_calls_not_booked", code=error.code, reason=str(error))
        await asyncio.sleep(_PAUSE)
