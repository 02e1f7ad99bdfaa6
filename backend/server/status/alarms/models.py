"""Models that fail now, or hardly ever vote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from backend.models.failures import cure
from backend.server.status.evidence import PackReport
from backend.server.status.formats import of
from backend.server.status.report import Alert, ModelReport, QuestionReport

_MIN_ROUNDS = 20
"""Rounds after which a model that seldom gives a valid vote is reported."""

_LATEST = 20
"""The latest calls of a model, which say whether it fails now."""

_MIN_FAILED = 5
"""Failed calls among these that an alarm needs, and they must be at least half."""


def model_alerts(models: Sequence[ModelReport], outcomes: Mapping[str, Sequence[str | None]]) -> list[Alert]:
    """The problems of a project's models.

    Args:
        models: the models.
        outcomes: model → the outcomes of its latest calls, an error's code or ``None``; the latest first.
    """
    pool = [model for model in models if model.in_pool]
    failing = [alert for model in pool if (alert := _failing(model.name, outcomes.get(model.name, ())))]
    named = {alert.subject for alert in failing}
    return failing + [
        _seldom_votes(model)
        for model in pool
        if model.asked >= _MIN_ROUNDS and 2 * model.voted < model.asked and model.name not in named
    ]


def family_alerts(question: QuestionReport) -> list[Alert]:
    """Without human labels nothing shows whether related models are right together or wrong together."""
    votes = question.votes
    if votes is None or votes.human:
        return []
    worth = f"{votes.models} models count as {votes.effective_votes:.1f} independent ones"
    return [
        Alert(
            "related_models",
            f"{question.control}: {', '.join(family)} agree with each other far more than with the rest. "
            f"Together the {worth}",
            "label some tasks by hand, which shows whether they are right; or keep one of them in camvo.yaml",
            level="note",
            subject=question.control,
        )
        for family in votes.families
    ]


def pack_alerts(packs: Sequence[PackReport]) -> list[Alert]:
    """The packed arms that are asked no more."""
    return [
        Alert(
            "packing_differs",
            f"{pack.arm} voted otherwise than {pack.model} asked singly, in {each.differed} of "
            f"{of(each.compared, 'task')} ({each.control}); it is asked no more",
            f"set a smaller pack at {pack.model} in camvo.yaml, or none; look for texts that address models",
            subject=pack.arm,
        )
        for pack in packs
        for each in pack.comparisons
        if each.unpacked
    ]


def _failing(model: str, outcomes: Sequence[str | None]) -> Alert | None:
    """The alarm about a model whose latest calls failed, under the code of most of them."""
    latest = outcomes[:_LATEST]
    codes = Counter(code for code in latest if code is not None)
    if codes.total() < _MIN_FAILED or 2 * codes.total() < len(latest):
        return None
    code = max(codes, key=lambda code: (codes[code], code))
    message = f"{model} fails: {codes.total()} of its latest {len(latest)} calls, most of them with {code}"
    return Alert(code, message, cure(code), subject=model)


def _seldom_votes(model: ModelReport) -> Alert:
    """The model is still asked and paid for, although its answers teach nothing."""
    return Alert(
        "model_hardly_votes",
        f"{model.name} gave no valid vote in {model.asked - model.voted} of {model.asked} rounds",
        "look at its failures; if there are none, its answers are not labels of the config: give the labels "
        "hints, or take the model out of camvo.yaml",
        subject=model.name,
    )
