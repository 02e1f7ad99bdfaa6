"""Measure the intervals of labels' shares: how often they hold the truth, and how wide they are.

    python benchmarks/shares.py [--runs 1000] [VOTES.csv …]

Each run draws blind labels from the same tasks, 100, 300 or 1,000 of them. The kinds of data are made up. Of
a votes table, the label is the plain majority of all models. Printed are, for each kind and number:

- the share of runs whose interval holds the true share: for the worst label, and on average over labels;
- the mean width, and those of two intervals from the blind labels alone, the exact one and the normal one;
- the share of runs, for the worst label, in which the normal interval of PPI++ holds the true share.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backend.commands.replay.inputs import VotesFile
from camvo.shares import LabelShares, label_shares
from camvo.typing import Array

DRAWN = (100, 300, 1000)
TASKS = 5000
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Tasks:
    """What is true of each task, and what the models say; each of shape (tasks, labels)."""

    truth: Flags
    models: Flags


@dataclass(frozen=True)
class Measured:
    """Results by label, each of shape (labels,)."""

    held: Array
    width: Array
    alone: Array
    normal_alone: Array
    normal_held: Array


def single_choice(seed: int, shares: Array, right: float, tasks: int = TASKS) -> Tasks:
    """Tasks with one label each; the models are right with a probability, and else say a random label."""
    draw = np.random.default_rng(seed)
    truth = draw.choice(len(shares), tasks, p=shares)
    guess = draw.integers(0, len(shares), tasks)
    models = np.where(draw.random(tasks) < right, truth, guess)
    return Tasks(_flags(truth, len(shares)), _flags(models, len(shares)))


def several_choices(seed: int, shares: Array, right: float, tasks: int = TASKS) -> Tasks:
    """Tasks with any number of labels; the models judge each label rightly with a probability."""
    draw = np.random.default_rng(seed)
    truth = draw.random((tasks, len(shares))) < shares
    return Tasks(truth, truth ^ (draw.random(truth.shape) >= right))


def one_sided(seed: int, tasks: int = TASKS) -> Tasks:
    """Two labels, of which the models miss nearly every case of the rare one and see it where it is not."""
    draw = np.random.default_rng(seed)
    truth = draw.random(tasks) < 0.05
    models = draw.random(tasks) < np.where(truth, 0.1, 0.1)
    return Tasks(_flags(~truth * 1, 2), _flags(~models * 1, 2))


KINDS: dict[str, Callable[[int], Tasks]] = {
    "2 labels, models right in 85%": lambda seed: single_choice(seed, np.array([0.4, 0.6]), 0.7),
    "3 labels, models always right": lambda seed: single_choice(seed, np.array([0.5, 0.3, 0.2]), 1.0),
    "3 labels, models right in 99.7%": lambda seed: single_choice(seed, np.array([0.5, 0.3, 0.2]), 0.9955),
    "2 labels, models guess": lambda seed: single_choice(seed, np.array([0.3, 0.7]), 0.0),
    "4 labels, two of them rare": lambda seed: single_choice(seed, np.array([0.9, 0.08, 0.015, 0.005]), 0.9),
    "22 labels, models right in 66%": lambda seed: single_choice(
        seed, np.random.default_rng(7).dirichlet(np.ones(22)), 0.645
    ),
    "2 labels, models see the rare one wrongly": one_sided,
    "6 labels, any number of them": lambda seed: several_choices(
        seed, np.array([0.5, 0.3, 0.2, 0.1, 0.03, 0.004]), 0.92
    ),
}
"""The kinds of made-up data, from a seed."""


def measure(tasks: Tasks, drawn: int, runs: int, seed: int = 0) -> Measured:
    """Draw samples again and again, and compare their intervals with the true shares."""
    draw = np.random.default_rng(seed)
    size = len(tasks.truth)
    samples = [draw.choice(size, drawn, replace=False) for _ in range(runs)]
    models, people, hits = (
        np.array([flags[sample].sum(axis=0) for sample in samples])
        for flags in (tasks.models, tasks.truth, tasks.models & tasks.truth)
    )
    predicted, true = tasks.models.sum(axis=0), tasks.truth.mean(axis=0)
    found: LabelShares = label_shares(predicted, size, models, drawn, hits, people - hits)
    share, spread = _ppi(predicted / size, models / drawn, people / drawn, hits / drawn)
    half = _half(spread, drawn, size)
    alone = people / drawn
    return Measured(
        held=_holds(found.low, found.high, true),
        width=(found.high - found.low).mean(axis=0),
        alone=(found.alone_high - found.alone_low).mean(axis=0),
        normal_alone=2 * _half(alone * (1 - alone), drawn, size).mean(axis=0),
        normal_held=_holds(share - half, share + half, true),
    )


def _ppi(predicted: Array, f: Array, y: Array, both: Array) -> tuple[Array, Array]:
    """The estimate of PPI++ with the sample's λ, and the variance of its terms in the sample."""
    covariance, variance = both - f * y, f * (1 - f)
    weight = np.clip(np.divide(covariance, variance, out=np.zeros_like(f), where=variance > 0), 0.0, 1.0)
    spread = y * (1 - y) - 2 * weight * covariance + weight**2 * variance
    return y + weight * (predicted - f), spread


def _half(spread: Array, drawn: int, size: int) -> Array:
    return np.asarray(1.96 * np.sqrt(np.maximum(spread, 0.0) / (drawn - 1) * (1 - drawn / size)))


def _holds(low: Array, high: Array, true: Array) -> Array:
    return np.asarray(((low - 1e-9 <= true) & (true <= high + 1e-9)).mean(axis=0))


def _flags(labels: NDArray[np.int64], number: int) -> Flags:
    return np.asarray(labels[:, None] == np.arange(number))


def of_table(path: Path) -> Tasks:
    """The tasks of a votes table with known truth, labelled by the plain majority of the models."""
    file = VotesFile.read(path)
    votes, truth = file.votes, file.truth
    counts = (votes[:, :, None] == np.arange(len(file.labels))).sum(axis=1)
    known = truth >= 0
    return Tasks(
        _flags(truth[known], len(file.labels)), _flags(counts.argmax(axis=1)[known], len(file.labels))
    )


def main() -> None:
    """Print one line for each kind of data and number of blind labels."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    kinds = {name: make(1) for name, make in KINDS.items()}
    kinds |= {path.stem: of_table(path) for path in options.tables}
    for name, tasks in kinds.items():
        for drawn in DRAWN:
            if drawn > len(tasks.truth):
                continue
            found = measure(tasks, drawn, options.runs)
            print(
                f"| {name} | {drawn:,} | {found.held.min():.1%}, {found.held.mean():.1%} |"
                f" {100 * found.width.mean():.2f} | {100 * found.alone.mean():.2f},"
                f" {100 * found.normal_alone.mean():.2f} | {found.normal_held.min():.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
