"""The charts of a project, question by question."""

from __future__ import annotations

from collections.abc import Iterator

from backend.server.status.drawings.confusion import confusion
from backend.server.status.drawings.course import course
from backend.server.status.drawings.drawing import Drawing, drawn
from backend.server.status.drawings.prices import Priced, prices
from backend.server.status.drawings.reliability import reliability
from backend.server.status.drawings.shares import label_shares, score_histogram
from backend.server.status.evidence import Share
from backend.server.status.report import ModelReport, ProjectReport, QuestionReport

_LEAST = 10
"""Checked votes that each model needs, so that models can be compared."""

_MEASURES = ("right, blind", "right, reviewed", "agrees with the vote")


def drawings(project: ProjectReport) -> dict[str, list[Drawing]]:
    """Return control → the charts of its question, after those of the project, which have no name.

    A project with one question has all of them without a name.
    """
    if not project.rounds:
        return {}
    current = [question for question in project.questions if question.current]
    if len(current) == 1:
        return {"": [*_of_project(project), *_of_question(current[0], 0)]}
    each = {question.control: list(_of_question(question, at)) for at, question in enumerate(current)}
    return {"": list(_of_project(project)), **each}


def _of_project(project: ProjectReport) -> Iterator[Drawing]:
    yield drawn(reliability, "reliability", project.audit, project.reviewed)
    measure, models = _measured(project)
    if models:
        yield drawn(prices, "prices", models, _vote(project, measure), measure)


def _of_question(question: QuestionReport, number: int) -> Iterator[Drawing]:
    labels = question.labels
    if labels is None:
        return
    yield drawn(course, f"course-{number}", labels.blocks)
    yield drawn(score_histogram, f"scores-{number}", labels.histogram)
    if labels.shares:
        yield drawn(label_shares, f"shares-{number}", labels.shares)
    if labels.confusion:
        yield drawn(confusion, f"confusion-{number}", labels.confusion)


def _measured(project: ProjectReport) -> tuple[str, tuple[Priced, ...]]:
    """The best kind of evidence that every model has, and the models with it."""
    asked = [model for model in project.models if model.in_pool and model.asked and _price(model) is not None]
    for measure in _MEASURES:
        points = [point for model in asked if (point := _priced(model, measure)) is not None]
        if points and len(points) == len(asked):
            return measure, tuple(points)
    return _MEASURES[-1], ()


def _share(model: ModelReport, measure: str) -> Share:
    return dict(zip(_MEASURES, (model.audit, model.reviewed, model.agreement), strict=True))[measure]


def _price(model: ModelReport) -> float | None:
    answered = model.calls - sum(model.failures.values())
    return model.cost_usd / answered if answered else None


def _priced(model: ModelReport, measure: str) -> Priced | None:
    share, price = _share(model, measure), _price(model)
    enough = share.count >= _LEAST
    if price is None or not enough or share.share is None or share.low is None or share.high is None:
        return None
    return Priced(model.name, price, share.share, share.low, share.high)


def _vote(project: ProjectReport, measure: str) -> Priced | None:
    """The vote, at the mean price of a task so far."""
    scores = dict(zip(_MEASURES, (project.audit, project.reviewed), strict=False)).get(measure)
    if scores is None or scores.labels.share is None or not project.progress.predicted:
        return None
    right = scores.labels
    price = project.cost.rounds_usd / project.progress.predicted
    return Priced("CaMVo", price, right.share or 0.0, right.low or 0.0, right.high or 0.0)
