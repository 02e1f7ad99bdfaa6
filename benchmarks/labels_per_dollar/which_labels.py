"""Which tasks should people label, so that votes weigh what they are worth?

    python benchmarks/labels_per_dollar/which_labels.py VOTES.csv … [--shuffles 10]

Sequential voting annotates the first 1,000 items (half of a smaller table). People then label some of them:
those with the lowest scores, as a review queue has them, any at random, or the first. Printed, as a line of
Markdown for each table: by how many points that changes the vote of everyone about all other items, at the
weights that the labels leave, ± half the 95% interval; and in brackets the worst shuffle.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import made_up
import numpy as np
from numpy.typing import NDArray
from run import tables

from camvo.policies.background_fits import WeightsMaterial
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.sequential import Sequential
from camvo.replays.measures import mean_interval, weighted_labels
from camvo.replays.replay import replay
from camvo.replays.rescored import rescored
from camvo.replays.votes_table import VotesTable
from camvo.state.kept_rounds import Head, Row
from camvo.weights.vote_weights import VoteWeights

FIRST, WINDOW, DIMENSION = 1000, 64, 8
LABELS = (20, 50, 200)
WAYS = ("lowest score", "random", "first")


@dataclass(frozen=True, kw_only=True)
class Watched(Sequential):
    """Sequential voting that shows what votes weigh in its latest plan."""

    latest: dict[str, float] = field(default_factory=dict)

    def plan_window(
        self, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
    ) -> list[Plan]:
        plans = super().plan_window(tasks, costs)
        for path in plans[-1].stages.paths.values():
            self.latest.update(path.origin.agreed)
        return plans


def gains(table: VotesTable, seed: int) -> dict[tuple[str, int], float]:
    """Points won by labels on some of the first items, (which, how many) → points on the others."""
    rng = np.random.default_rng([seed, 0])
    order = rng.permutation(len(table.truth))
    size = min(FIRST, len(order) // 2)
    past, others = order[:size], order[size:]
    contexts = rng.normal(size=(size, DIMENSION))
    items = VotesTable(table.labels, table.prices, contexts, table.votes[past], table.truth[past])
    policy = Watched()
    trace = replay(policy, items, window=WINDOW)
    scores = rescored(trace, items, growth=1.0)
    ways = dict(zip(WAYS, (np.argsort(scores), rng.permutation(size), np.arange(size)), strict=True))
    before = accuracy(table, others, policy.latest)
    found = {}
    for way, ranked in ways.items():
        for count in LABELS:
            head = Head(tuple(row(items, trace.asked[item], item) for item in np.sort(ranked[:count])))
            stack = WeightsMaterial(head, table.labels, tuple(policy.latest.items())).study()
            after = accuracy(table, others, VoteWeights(policy.latest, stack).by_arm())
            found[way, count] = 100.0 * (after - before)
    return found


def row(items: VotesTable, asked: NDArray[np.bool_], item: int) -> Row:
    """The round of one item, labelled."""
    votes = {
        arm: items.labels[vote] if vote >= 0 else None
        for arm, vote, was in zip(items.prices, items.votes[item].tolist(), asked, strict=True)
        if was
    }
    found = Row.of(votes, dict.fromkeys(votes, 1.0), items.labels[items.truth[item]], everyone=False)
    assert found is not None
    return found


def accuracy(table: VotesTable, items: NDArray[np.int64], weights: Mapping[str, float]) -> float:
    """How often everyone's weighted vote is right."""
    of = np.array([weights[arm] for arm in table.prices])
    labels = weighted_labels(table.votes[items], of, len(table.labels))
    return float((labels == table.truth[items]).mean())


def line(name: str, found: Sequence[Mapping[tuple[str, int], float]]) -> str:
    cells = []
    for way in WAYS:
        for count in LABELS:
            values = [one[way, count] for one in found]
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
    given = parser.parse_args()
    print("| | " + " | ".join(f"{way}, {count}" for way in WAYS for count in LABELS) + " |")
    for stem, table in tables(given.votes, given.embeddings):
        print(line(stem, [gains(table, seed) for seed in range(given.shuffles)]), flush=True)
    for kind in made_up.KINDS:
        drawn = (made_up.drawn(kind, seed) for seed in range(max(given.shuffles // 2, 2)))
        name = f"{kind.name}; {kind.labels} labels, {kind.items:,} items"
        print(line(name, [gains(table, 0) for table in drawn]), flush=True)


if __name__ == "__main__":
    main()
