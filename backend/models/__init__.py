"""The models: what a call will cost, and one call at a time through litellm.

Retries, the store of answers and the account of money are in ``queries``; this package only asks.
"""

from __future__ import annotations

from backend.models.calls import Answer
from backend.models.pool import Pool

__all__ = ["Answer", "Pool"]
