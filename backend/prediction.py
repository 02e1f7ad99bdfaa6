"""Rounds as a prediction in the form that Label Studio stores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from backend.labels import Question
from backend.ledger.rounds import Round

Prediction: TypeAlias = dict[str, Any] | list[Any]
"""What Label Studio gets for one task: a prediction, a list of them, or ``[]`` for none."""


def prediction_of(decided: Sequence[tuple[Question, Round]], model_version: str) -> dict[str, Any]:
    """One prediction with a region for every question that was decided.

    Each region carries the probability that its own label is right. The prediction's ``score``, by which
    Label Studio sorts, is the probability that all of them are, their errors taken as independent: the
    product. ``model_version`` must be the backend's title in Label Studio, or the score column stays blank.
    """
    return _signed(
        [(question.region(round_.label), round_.score) for question, round_ in decided], model_version
    )


def votes_of(decided: Sequence[tuple[Question, Round]], model_version: str) -> list[dict[str, Any]]:
    """One prediction for each model that voted, in alphabetical order: an annotator sees who said what.

    Label Studio stores all predictions of a list and fills the form with the first one, so these come after
    the ensemble's. Each has a version of its own, ``<model_version>/<model>``: the score column and
    uncertainty sampling look at the ensemble's version alone. The score is the model's correctness as the
    plan estimated it.
    """
    voters = sorted({arm for _, round_ in decided for arm, vote in round_.votes.items() if vote is not None})
    return [
        _signed(
            [
                (question.region(vote), round_.plan["arms"][arm]["correctness"])
                for question, round_ in decided
                if (vote := round_.votes.get(arm)) is not None
            ],
            f"{model_version}/{arm}",
        )
        for arm in voters
    ]


def _signed(regions: Sequence[tuple[dict[str, Any], float]], model_version: str) -> dict[str, Any]:
    """A prediction of regions, each with the probability that it is right."""
    score = math.prod(probability for _, probability in regions)
    return {
        "result": [region | {"score": probability} for region, probability in regions],
        "score": min(max(score, 0.0), 1.0),
        "model_version": model_version,
    }
