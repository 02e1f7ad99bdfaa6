"""Rounds as a prediction in the form that Label Studio stores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backend.labels import Question
from backend.ledger.rounds import Round


def prediction_of(decided: Sequence[tuple[Question, Round]], model_version: str) -> dict[str, Any]:
    """One prediction with a region for every question that was decided.

    Each region carries the probability that its own label is right. The prediction's ``score``, by which
    Label Studio sorts, is the probability that all of them are, their errors taken as independent: the
    product. ``model_version`` must be the backend's title in Label Studio, or the score column stays blank.
    """
    regions = [question.region(round_.label) | {"score": round_.score} for question, round_ in decided]
    score = math.prod(round_.score for _, round_ in decided)
    return {"result": regions, "score": min(max(score, 0.0), 1.0), "model_version": model_version}
