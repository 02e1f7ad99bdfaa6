"""Shares of labels from answers: those of the models to all tasks, those of people to a random sample.

An answer is the set of labels that it gives a task: one label where there is a single choice. A task of the
sample whose human answer is missing, because it was skipped, withdrawn or tied, is unknown. The bounds
then hold for whatever it may be: the lower ones as if it had none of the labels, the upper ones as if it had
each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.shares.label_shares import label_shares

Answer = frozenset[str]


@dataclass(frozen=True, slots=True)
class LabelShare:
    """The share of one label among all tasks, with its 95% interval; each number is in [0, 1].

    Attributes:
        label: the label.
        predicted: its share among the models' labels.
        share: the estimate of its share in truth.
        low: the lower bound of the interval.
        high: the upper bound.
        alone_low: the lower bound that the blind labels give without the models' labels.
        alone_high: the upper bound.
        exact: whether the interval is that of the blind labels alone.
    """

    label: str
    predicted: float
    share: float
    low: float
    high: float
    alone_low: float
    alone_high: float
    exact: bool


def answer_shares(
    labels: Sequence[str],
    predicted: Mapping[Answer, int],
    sample: Sequence[tuple[Answer, Answer | None]],
) -> list[LabelShare]:
    """Estimate the share of each label among all tasks.

    Args:
        labels: the labels.
        predicted: answer of the models → how many tasks have it; the sample's tasks are among them.
        sample: the models' answer and the people's on each task of the sample, ``None`` for an unknown one.

    Returns:
        The shares in the order of ``labels``; none without a known answer in the sample.
    """
    if not any(human is not None for _, human in sample):
        return []
    population = sum(predicted.values())
    counts = [sum(n for answer, n in predicted.items() if label in answer) for label in labels]
    models = _held(labels, [answer for answer, _ in sample])
    low, middle, high = (
        label_shares(
            counts,
            population,
            (models & kept).sum(axis=0),
            int(kept.sum()),
            (models & people & kept).sum(axis=0),
            (~models & people & kept).sum(axis=0),
        )
        for models, people, kept in _readings(labels, models, [human for _, human in sample])
    )
    return [
        LabelShare(
            label,
            counts[at] / population,
            float(middle.share[at]),
            float(low.low[at]),
            float(high.high[at]),
            float(low.alone_low[at]),
            float(high.alone_high[at]),
            bool(middle.exact[at]),
        )
        for at, label in enumerate(labels)
    ]


Reading = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]


def _readings(
    labels: Sequence[str], models: NDArray[np.bool_], humans: Sequence[Answer | None]
) -> list[Reading]:
    """The sample with unknown answers as "no label", without them, and with them as "every label"."""
    known = np.array([human is not None for human in humans])[:, None]
    people = _held(labels, [human or frozenset() for human in humans])
    everyone = np.ones_like(known)
    return [(models, people, everyone), (models, people, known), (models, people | ~known, everyone)]


def _held(labels: Sequence[str], answers: Sequence[Answer]) -> NDArray[np.bool_]:
    """Which labels each answer holds, shape (answers, labels)."""
    return np.array([[label in answer for label in labels] for answer in answers], dtype=bool).reshape(
        len(answers), len(labels)
    )
