"""Vote rows: the votes on one question as numbers, the same for every fit.

A row has one number for each of K arms: the number of the label that it voted for, SILENT if it was asked and
gave no vote, or UNASKED. With two labels the number is the label's position among the sorted labels. With
more labels, labels are numbered in the order in which a row first names them, because the model of votes
treats all labels alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from camvo.state.vote_patterns import UNASKED, VotePattern
from camvo.twins.same_model import same_model
from camvo.typing import Array

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VoteRows:
    """Distinct vote rows and how many rounds had each.

    Attributes:
        rows: shape (P, K).
        counts: the number of rounds that asked all models independently of the votes, shape (P,).
        partial: the number of other rounds, shape (P,).
    """

    rows: Rows
    counts: Array
    partial: Array


def tabulate(patterns: Mapping[VotePattern, int], arms: Sequence[str], labels: int) -> VoteRows:
    """Tabulate vote patterns as vote rows.

    Args:
        patterns: vote pattern → its number of rounds. A round without one of ``arms`` in its pool counts as
            one that did not ask that arm. A round with two labels counts only if its pattern names them.
        arms: the K arms.
        labels: M, the number of labels.
    """
    table: dict[tuple[int, ...], list[float]] = {}
    models = models_of(arms)
    for pattern, count in patterns.items():
        if count <= 0 or (labels == 2) != bool(pattern.labels):
            continue
        row = pattern.among_known(arms)
        everyone = pattern.everyone and asked_each_model(row, models)
        table.setdefault(row, [0.0, 0.0])[not everyone] += count
    ordered = sorted(table)
    numbers = np.array([table[row] for row in ordered], dtype=np.float64).reshape(-1, 2)
    return VoteRows(np.array(ordered, dtype=np.int64).reshape(-1, len(arms)), numbers[:, 0], numbers[:, 1])


def distinct(rows: Rows) -> tuple[Rows, Array]:
    """Each row once, shape (P, K), and how often it stands among ``rows``, shape (P,)."""
    unique, counts = np.unique(rows, axis=0, return_counts=True)
    return unique, counts.astype(np.float64)


def models_of(arms: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The positions of each model's arms: several for a model with a packed arm."""
    groups = same_model(arms)
    return tuple(
        sorted({tuple([n for n, arm in enumerate(arms) if arm in groups.get(each, {each})]) for each in arms})
    )


def asked_each_model(row: Sequence[int], models: Sequence[Sequence[int]]) -> bool:
    """Whether a row has asked each model by at least one of its arms (:func:`models_of`)."""
    return all(any(row[arm] != UNASKED for arm in arms) for arms in models)


def row_of(
    votes: Mapping[str, str | None], arms: Sequence[str], labels: Sequence[str]
) -> tuple[tuple[int, ...], list[str]]:
    """One round's votes as a row without silent arms, and the label of each number in it.

    Args:
        votes: arm → label, ``None`` if it gave no vote. Arms that were not asked are absent.
        arms: the K arms.
        labels: the label set. Votes for other labels count as no vote.

    Returns:
        The row, length K, in which arms without a vote are UNASKED, and the labels by their numbers.
    """
    numbered = sorted(labels) if len(labels) == 2 else []
    row: list[int] = []
    for arm in arms:
        vote = votes.get(arm)
        if vote is None or vote not in labels:
            row.append(UNASKED)
            continue
        if vote not in numbered:
            numbered.append(vote)
        row.append(numbered.index(vote))
    return tuple(row), numbered


def renumber(rows: Rows) -> Rows:
    """Number the labels of each row, shape (P, K), in the order of their first appearance."""
    out = rows.copy()
    number = np.full((len(rows), int(rows.max(initial=0)) + 1), -1, dtype=np.int64)
    following = np.zeros(len(rows), dtype=np.int64)
    for position in range(rows.shape[1]):
        named = np.flatnonzero(rows[:, position] >= 0)
        label = rows[named, position]
        new = named[number[named, label] < 0]
        number[new, rows[new, position]] = following[new]
        following[new] += 1
        out[named, position] = number[named, label]
    return out
