"""Compare which tasks people should label to learn the weights of the votes.

    python benchmarks/labels_per_dollar/which_labels.py VOTES.csv … [--shuffles 10]

The joint policy annotates the first 1,000 items (half of a smaller table). People then label some of them:
those with the lowest scores, as in a review queue, random ones, or the first ones. Each table gives a line of
Markdown. Its cells are the points that the vote of all models gains on all other items with the human terms
learnt from these labels, ± half the 95% interval, and in brackets the worst shuffle.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import made_up
import numpy as np
from joint_fits import Cast, fitted, labelled_by
from numpy.typing import NDArray
from run import tables

from camvo.policies.joint import Joint
from camvo.replays.measures import mean_interval
from camvo.replays.replay import VotesTable, calibrated_scores, replay

FIRST, WINDOW, DIMENSION = 1000, 64, 8
LABELS = (20, 50, 200)
WAYS = ("lowest score", "random", "first")


def gains(table: VotesTable, seed: int) -> dict[tuple[str, int], float]:
    """Measure the gains: (way to choose the items, number of labels) → points gained on the other items."""
    rng = np.random.default_rng([seed, 0])
    order = rng.permutation(len(table.truth))
    size = min(FIRST, len(order) // 2)
    past, others = order[:size], order[size:]
    contexts = rng.normal(size=(size, DIMENSION))
    items = VotesTable(table.labels, table.prices, contexts, table.votes[past], table.truth[past])
    trace = replay(Joint(), items, window=WINDOW)
    scores = calibrated_scores(trace, items, growth=1.0)
    ways = dict(zip(WAYS, (np.argsort(scores), rng.permutation(size), np.arange(size)), strict=True))
    rounds = [cast(table, item, asked) for item, asked in zip(past, trace.asked, strict=True)]
    everyone = np.full(len(table.prices), True)
    every = [cast(table, item, everyone) for item in others]

    def right(labelled: Sequence[int]) -> float:
        taught = [(rounds[item], table.labels[items.truth[item]]) for item in labelled]
        said = labelled_by(fitted(rounds, taught, dict(table.prices), table.labels), every)
        return 100.0 * float((said == table.truth[others]).mean())

    before = right([])
    return {
        (way, count): right(np.sort(ranked[:count]).tolist()) - before
        for way, ranked in ways.items()
        for count in LABELS
    }


def cast(table: VotesTable, item: int, asked: NDArray[np.bool_]) -> Cast:
    """The votes of the models that were asked about an item."""
    row = zip(table.prices, table.votes[item].tolist(), asked, strict=True)
    return {arm: table.labels[vote] if vote >= 0 else None for arm, vote, was_asked in row if was_asked}


def line(name: str, shuffles: Sequence[Mapping[tuple[str, int], float]]) -> str:
    cells = []
    for way in WAYS:
        for count in LABELS:
            values = [points[way, count] for points in shuffles]
            mean, interval = mean_interval(values)
            half = (interval[1] - interval[0]) / 2.0 if interval else 0.0
            cells.append(f"{mean:+.2f} ± {half:.2f} ({min(values):+.1f})")
    return "| " + " | ".join([name, *cells]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="*")
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--shuffles", type=int, default=10)
    options = parser.parse_args()
    print("| | " + " | ".join(f"{way}, {count}" for way in WAYS for count in LABELS) + " |")
    for stem, table in tables(options.votes, options.embeddings):
        print(line(stem, [gains(table, seed) for seed in range(options.shuffles)]), flush=True)
    for kind in made_up.KINDS.values():
        drawn = (made_up.drawn(kind, seed).table for seed in range(max(options.shuffles // 2, 2)))
        name = f"{kind.name}; {kind.labels} labels, {kind.items:,} items"
        print(line(name, [gains(table, 0) for table in drawn]), flush=True)


if __name__ == "__main__":
    main()
