"""Rounds as a prediction in the form that Label Studio stores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from backend.labels import TaskQuestion
from backend.labels.region_choices import RegionChoices
from backend.ledger.rounds import Round


def prediction_of(decided: Sequence[tuple[TaskQuestion, Round]], model_version: str) -> dict[str, Any]:
    """One prediction with the regions of every question that was decided.

    Each region carries the score of its question's answer: the probability that a label is right, the reward
    that any other answer can expect. The prediction's ``score``, by which Label Studio sorts, is the product
    of all questions' scores, their errors taken as independent. ``model_version`` must be the backend's title
    in Label Studio, or the score column stays blank.
    """
    regions = {
        question.name: [region | {"score": round_.score} for region in question.regions(round_.label)]
        for question, round_ in decided
    }
    for question, _ in decided:
        if isinstance(control := question.question.control, RegionChoices):
            for name in control.controls:
                regions[name] = [
                    {"id": f"{name}-{place}"} | region for place, region in enumerate(regions.get(name, []))
                ]
            marked = [region for name in control.controls for region in regions[name]]
            regions[question.name] = control.given_to(marked, regions[question.name])
    score = math.prod(round_.score for _, round_ in decided)
    return {
        "result": list(chain(*regions.values())),
        "score": min(max(score, 0.0), 1.0),
        "model_version": model_version,
    }
