"""The models: what a call to one will cost, one call at a time, and answers that are paid for once.

- ``pool``: the models by name, and their answers, which are stored in the ledger and paid for once
- ``model_caller``: calls to one model, without a retry and without the ledger
- ``embedded_voters``: models that need no key and no network
- ``embedder``: sentence vectors, the contexts of tasks

Code inside this package imports from the modules, never from this facade.
"""

from __future__ import annotations

from backend.models.pool import Pool

__all__ = ["Pool"]
