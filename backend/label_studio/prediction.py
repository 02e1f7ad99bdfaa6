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
"""What Label Studio gets for one task: a prediction, a list of them, or ``[]`` for none."""


def prediction_of(decided: Sequence[tuple[TaskQuestion, Round]], model_version: str) -> dict[str, Any]:
    """One prediction with the regions of every question that was decided.

    Each region carries the score of its question's answer: the probability that a label is right, the reward
    that any other answer can expect. The prediction's ``score``, by which Label Studio sorts, is the product
    of all questions' scores, their errors taken as independent. ``model_version`` must be the backend's title
    in Label Studio, or the score column stays blank.
    """
    return _signed([(question, round_.label, round_.score) for question, round_ in decided], model_version)


def votes_of(decided: Sequence[tuple[TaskQuestion, Round]], model_version: str) -> list[dict[str, Any]]:
    """One prediction for each model that voted, in alphabetical order: an annotator sees who said what.

    Label Studio stores all predictions of a list, and its label stream fills the form of a new task with the
    last one, so these come before the ensemble's. Each has a version of its own, ``<model_version>/<model>``:
    the score column, uncertainty sampling and the form of an opened task look at the ensemble's version
    alone. The score is the model's correctness as the plan estimated it.
    """
    voters = sorted({arm for _, round_ in decided for arm, vote in round_.votes.items() if vote is not None})
    return [
        _signed(
            [
                (question, vote, round_.plan["arms"][arm]["correctness"])
                for question, round_ in decided
                if (vote := round_.votes.get(arm)) is not None
            ],
            f"{model_version}/{arm}",
        )
        for arm in voters
    ]


def _signed(answers: Sequence[tuple[TaskQuestion, str, float]], model_version: str) -> dict[str, Any]:
    """A prediction of several questions, each with its vote and the score of that."""
    regions = {
        question.name: [region | {"score": score} for region in question.result_items(vote)]
        for question, vote, score in answers
    }
    for question, _, _ in answers:
        if isinstance(control := question.question.control, RegionChoices):
            regions |= _classified(question.name, control, regions)
    score = math.prod(own for _, _, own in answers)
    return {
        "result": list(chain(*regions.values())),
        "score": min(max(score, 0.0), 1.0),
        "model_version": model_version,
    }


def _classified(
    name: str, control: RegionChoices, regions: Mapping[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """The regions that may get a class, with an ``id``; under ``name`` the items that give it to them."""
    marked = {
        carrier: [
            {"id": f"{carrier}-{place}"} | region for place, region in enumerate(regions.get(carrier, ()))
        ]
        for carrier in control.controls
    }
    return {**marked, name: control.attach_to_regions(list(chain(*marked.values())), regions[name])}
