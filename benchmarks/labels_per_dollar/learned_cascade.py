"""A cascade whose scorer learns from labels: FrugalGPT with a logistic regression instead of a network.

Every model is asked about the labelled items. A regression for each model learns from them how likely its
answer is right, given the text's embedding, the answer, and which cheaper models gave the same answer. The
other items ask the cheapest model first and stop when that probability reaches the threshold. The label is
the answer of the last model asked.

FrugalGPT's scorer sees only the text and the answer. FrugalGPT also searches on the labelled items which
models take part and with which thresholds; here every model takes part and all share one threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

from camvo.replays.measures import full_vote_weights, weighted_labels
from camvo.replays.replay import Trace, VotesTable
from camvo.typing import Array

_STRENGTH = 1.0
"""C of the regressions, the inverse of their ridge penalty."""


def cascades(table: VotesTable, labelled: int, thresholds: Sequence[float]) -> Iterator[Trace]:
    """Replay the cascade at each threshold, in the order of the items.

    Args:
        table: the votes; only the truth of the labelled items is learnt from.
        labelled: the number of first items that have human labels. Every model is asked about them, and
            their label is the vote weighted by accuracy on them.
        thresholds: in [0, 1].
    """
    prices = np.array(list(table.prices.values()))
    order = np.argsort(prices, kind="stable")
    chances = np.column_stack([_chances(table, order[:k], model, labelled) for k, model in enumerate(order)])
    count = len(table.labels)
    first = weighted_labels(
        table.votes[:labelled], full_vote_weights(table.votes[:labelled], table.truth[:labelled]), count
    )
    for threshold in thresholds:
        stops = chances >= threshold
        stops[:, -1] = True
        stops[:labelled] = np.arange(len(order)) == len(order) - 1
        last = stops.argmax(axis=1)
        asked = np.zeros(table.votes.shape, dtype=np.bool_)
        asked[:, order] = np.arange(len(order)) <= last[:, None]
        rows = np.arange(len(last))
        labels, scores = _last_given(table.votes[:, order], chances, last)
        labels[:labelled], scores[:labelled] = first, chances[rows[:labelled], -1]
        yield Trace(
            labels=labels,
            scores=np.where(labels >= 0, scores, np.nan),
            costs=asked @ prices,
            asked=asked,
            trust=np.zeros(len(labels)),
            labelled_at=np.where(rows < labelled, rows + 1, 0),
            student=np.full(len(labels), -1),
        )


def _last_given(votes: Array, chances: Array, last: Array) -> tuple[Array, Array]:
    """The answer of the last model asked that gave one (−1 for none), and its probability."""
    usable = (votes >= 0) & (np.arange(votes.shape[1]) <= last[:, None])
    position = votes.shape[1] - 1 - usable[:, ::-1].argmax(axis=1)
    rows = np.arange(len(votes))
    return np.where(usable.any(axis=1), votes[rows, position], -1), chances[rows, position]


def _chances(table: VotesTable, cheaper: Array, model: int, labelled: int) -> Array:
    """The probability that the model's answer is right, shape (n,); 0 where it gave none."""
    votes = table.votes[:, model]
    answer = votes[:, None] == np.arange(len(table.labels))
    same = (table.votes[:, cheaper] == votes[:, None]) & (votes >= 0)[:, None]
    features = np.hstack([table.contexts, answer, same])
    training = np.flatnonzero(votes[:labelled] >= 0)
    right = votes[training] == table.truth[training]
    if right.all() or not right.any():
        return np.where(votes >= 0, right.mean() if len(right) else 0.5, 0.0)
    fitted = LogisticRegression(C=_STRENGTH, max_iter=1000).fit(features[training], right)
    return np.where(votes >= 0, fitted.predict_proba(features)[:, 1], 0.0)
