"""Loading the slow libraries at start-up, so that the first request does not wait for them."""

from __future__ import annotations

import structlog

from backend.models import Pool
from backend.models.embedder.embedder import Embedder
from backend.models.heavy_imports import freeze_loaded_objects
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


def warm_up(embedder: Embedder, pool: Pool) -> None:
    """Load the embedder and a tokeniser; an embedder that cannot be loaded is logged."""
    try:
        embedder.load()
        pool.count(pool.names[0], [{"role": "user", "content": "warm up"}])
    except CamvoError as error:
        _log.error("embedder_unavailable", code=error.code, reason=str(error))
    freeze_loaded_objects()
