"""A cascade whose scorer learns from labels: FrugalGPT's shape, with a logistic regression for its network.

On the labelled items everyone is asked. For each model a regression learns from them how likely its answer
is right, from the text's embedding, the answer, and which cheaper models gave the same one. Then models are
asked the cheapest first, until that is above the threshold; the label is the answer of the last one asked.
FrugalGPT's scorer sees the text and the answer alone, and which models take part, and with which thresholds,
is searched on the labelled items; here everyone takes part and all have one threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

from camvo.replays.measures import full_weights, weighted_labels
from camvo.replays.replay import Trace
from camvo.replays.votes_table import VotesTable
from camvo.typing import Array

_STRENGTH = 1.0
"""C of the regressions, the inverse of their ridge."""


def cascades(table: VotesTable, labelled: int, thresholds: Sequence[float]) -> Iterator[Trace]:
    """What the cascade does at each threshold, in the order of the items.

    Args:
        table: the votes; the truth of the first items alone is learnt from.
        labelled: so many have human labels. Everyone is asked about them, and their label is the vote
            weighted by accuracy on them.
        thresholds: in [0, 1].
    """
    prices = np.array(list(table.prices.values()))
    order = np.argsort(prices, kind="stable")
    chances = np.column_stack([_chances(table, order[:k], model, labelled) for k, model in enumerate(order)])
    count = len(table.labels)
    first = weighted_labels(
        table.votes[:labelled], full_weights(table.votes[:labelled], table.truth[:labelled]), count
    )
    for threshold in thresholds:
        enough = chances >= threshold
        enough[:, -1] = True
        enough[:labelled] = np.arange(len(order)) == len(order) - 1
        last = enough.argmax(axis=1)
        asked = np.zeros(table.votes.shape, dtype=np.bool_)
        asked[:, order] = np.arange(len(order)) <= last[:, None]
        ran = np.arange(len(last))
        labels, scores = _last_given(table.votes[:, order], chances, last)
        labels[:labelled], scores[:labelled] = first, chances[ran[:labelled], -1]
        yield Trace(
            labels, np.where(labels >= 0, scores, np.nan), asked @ prices, asked, np.zeros(len(labels))
        )


def _last_given(votes: Array, chances: Array, last: Array) -> tuple[Array, Array]:
    """The answer of the last model that was asked and gave one, −1 for none, and its chance."""
    there = (votes >= 0) & (np.arange(votes.shape[1]) <= last[:, None])
    position = votes.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    rows = np.arange(len(votes))
    return np.where(there.any(axis=1), votes[rows, position], -1), chances[rows, position]


def _chances(table: VotesTable, cheaper: Array, model: int, labelled: int) -> Array:
    """How likely the model's answer is right, shape (n,); 0 where it gave none."""
    said = table.votes[:, model]
    answer = said[:, None] == np.arange(len(table.labels))
    same = (table.votes[:, cheaper] == said[:, None]) & (said >= 0)[:, None]
    features = np.hstack([table.contexts, answer, same])
    learnt = np.flatnonzero(said[:labelled] >= 0)
    right = said[learnt] == table.truth[learnt]
    if right.all() or not right.any():
        return np.where(said >= 0, right.mean() if len(right) else 0.5, 0.0)
    fitted = LogisticRegression(C=_STRENGTH, max_iter=1000).fit(features[learnt], right)
    return np.where(said >= 0, fitted.predict_proba(features)[:, 1], 0.0)
