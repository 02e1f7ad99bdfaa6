"""Finished rounds as the ledger stores them, without models: for tests that need rounds of given scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from backend.ledger.rounds import Round, RoundKey

PROJECT = "7.100"


def a_key(
    task: int = 1,
    *,
    project: str = PROJECT,
    control: str = "mood",
    question: str = "hash",
    epoch: str = "e1",
) -> RoundKey:
    """The key of a round on a task."""
    return RoundKey(project, task, control, question, epoch)


def a_round(key: RoundKey, **changes: Any) -> Round:
    """A round that cost nothing and taught nothing, with one vote. ``changes`` replaces its fields."""
    round_ = Round(
        key=key,
        plan={"arms": {}, "aggregation": {"name": "labels"}, "labels": ["Glad", "Sad"]},
        votes={"red": "Glad"},
        label="Glad",
        score=0.9,
        cost_usd=0.0,
        full_cost_usd=0.0,
        audit=False,
        taught=None,
        taught_by=None,
        context=np.zeros(2),
        created_at=1.0,
    )
    return replace(round_, **changes)
