"""Rounds as a prediction in the form that Label Studio stores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

from backend.ledger.rounds import Round
from backend.questions import TaskQuestion
from backend.questions.spans.region_choices import RegionChoices

Prediction: TypeAlias = dict[str, Any] | list[Any]
"""Label Studio's answer for one task: a prediction, a list of them, or ``[]`` for none."""


def prediction_of(decided: Sequence[tuple[TaskQuestion, Round]], model_version: str) -> dict[str, Any]:
    """One prediction with the regions of every decided question.

    Each region carries its question's score: the probability that the label is right, or in general the
    reward it is expected to earn. The prediction's ``score``, by which Label Studio sorts, is the product of
    the questions' scores: errors are treated as independent.

    Args:
        decided: the decided questions with their rounds.
        model_version: must equal the backend's title in Label Studio, or the score column stays blank.
    """
    return _prediction(
        [(question, round_.label, round_.score) for question, round_ in decided], model_version
    )


def without_lists(predictions: Sequence[Prediction]) -> list[Prediction]:
    """The ensemble's prediction for each task, for Label Studio's editor, which takes no lists."""
    return [answer[-1] if isinstance(answer, list) and answer else answer for answer in predictions]


def model_predictions(
    decided: Sequence[tuple[TaskQuestion, Round]], model_version: str
) -> list[dict[str, Any]]:
    """One prediction per model that voted, in alphabetical order, to show annotators who voted for what.

    Label Studio stores all predictions of a list, and its label stream fills the form of a new task with the
    last one, so these must come before the ensemble's prediction. Each has its own version,
    ``<model_version>/<model>``: the score column, uncertainty sampling and an opened task's form read the
    ensemble's version only. The score is the model's correctness as estimated by the plan.
    """
    voters = sorted({arm for _, round_ in decided for arm, vote in round_.votes.items() if vote is not None})
    return [
        _prediction(
            [
                (question, vote, round_.plan["arms"][arm]["correctness"])
                for question, round_ in decided
                if (vote := round_.votes.get(arm)) is not None
            ],
            f"{model_version}/{arm}",
        )
        for arm in voters
    ]


def _prediction(answers: Sequence[tuple[TaskQuestion, str, float]], model_version: str) -> dict[str, Any]:
    """A prediction of several questions, each with its label and the label's score."""
    regions = {
        question.name: [region | {"score": score} for region in question.result_items(label)]
        for question, label, score in answers
    }
    for question, _, _ in answers:
        if isinstance(control := question.question.control, RegionChoices):
            regions |= _classified(question.name, control, regions)
    score = math.prod(question_score for _, _, question_score in answers)
    return {
        "result": list(chain(*regions.values())),
        "score": min(max(score, 0.0), 1.0),
        "model_version": model_version,
    }


def _classified(
    name: str, control: RegionChoices, regions: Mapping[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """The regions that can have a class, each with an ``id``; under ``name`` the items that assign one."""
    marked = {
        carrier: [
            {"id": f"{carrier}-{place}"} | region for place, region in enumerate(regions.get(carrier, ()))
        ]
        for carrier in control.controls
    }
    return {**marked, name: control.attach_to_regions(list(chain(*marked.values())), regions[name])}
