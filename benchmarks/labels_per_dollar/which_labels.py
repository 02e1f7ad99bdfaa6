"""Compare which tasks people should label to learn the weights of the votes.

    python benchmarks/labels_per_dollar/which_labels.py VOTES.csv … [--shuffles 10]

Sequential voting annotates the first 1,000 items (half of a smaller table). People then label some of them:
those with the lowest scores, as in a review queue, random ones, or the first ones. Each table gives a line of
Markdown. Its cells are the points that the full vote gains on all other items with the weights learnt from
these labels, ± half the 95% interval, and in brackets the worst shuffle.
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

from camvo.policies.background_fits import WeightsFitData
from camvo.policies.ensemble import Choice
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.policies.sequential import Sequential
from camvo.replays.calibrated_scores import calibrated_scores
from camvo.replays.measures import mean_interval, weighted_labels
from camvo.replays.replay import replay
from camvo.replays.votes_table import VotesTable
from camvo.state.kept_rounds import KeptRound, LatestRounds
from camvo.weights.vote_weights import VoteWeights

FIRST, WINDOW, DIMENSION = 1000, 64, 8
LABELS = (20, 50, 200)
WAYS = ("lowest score", "random", "first")


@dataclass(frozen=True, kw_only=True)
class Watched(Sequential):
    """Sequential voting that exposes the vote weights of its latest plan."""

    latest: dict[str, float] = field(default_factory=dict, compare=False)  # unhashable, so not compared

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        plan = super().assemble(observations, costs, estimates, choice)
        for question in plan.stages.questions.values():
            self.latest.update(question.vote_weights.agreed)
        return plan


def gains(table: VotesTable, seed: int) -> dict[tuple[str, int], float]:
    """Measure the gains: (way to choose the items, number of labels) → points gained on the other items."""
    rng = np.random.default_rng([seed, 0])
    order = rng.permutation(len(table.truth))
    size = min(FIRST, len(order) // 2)
    past, others = order[:size], order[size:]
    contexts = rng.normal(size=(size, DIMENSION))
    items = VotesTable(table.labels, table.prices, contexts, table.votes[past], table.truth[past])
    policy = Watched()
    trace = replay(policy, items, window=WINDOW)
    scores = calibrated_scores(trace, items, growth=1.0)
    ways = dict(zip(WAYS, (np.argsort(scores), rng.permutation(size), np.arange(size)), strict=True))
    before = accuracy(table, others, policy.latest)
    points = {}
    for way, ranked in ways.items():
        for count in LABELS:
            labelled = (kept_round(items, trace.asked[item], item) for item in np.sort(ranked[:count]))
            latest = LatestRounds(tuple(labelled))
            stack = WeightsFitData(latest, table.labels, tuple(policy.latest.items())).compute().stack
            after = accuracy(table, others, VoteWeights(policy.latest, stack).by_arm())
            points[way, count] = 100.0 * (after - before)
    return points


def kept_round(items: VotesTable, asked: NDArray[np.bool_], item: int) -> KeptRound:
    """The kept round of an item with its human label."""
    votes = {
        arm: items.labels[vote] if vote >= 0 else None
        for arm, vote, was_asked in zip(items.prices, items.votes[item].tolist(), asked, strict=True)
        if was_asked
    }
    labelled_round = KeptRound.of(
        votes, dict.fromkeys(votes, 1.0), items.labels[items.truth[item]], everyone=False
    )
    assert labelled_round is not None
    return labelled_round


def accuracy(table: VotesTable, items: NDArray[np.int64], weights: Mapping[str, float]) -> float:
    """The accuracy of the weighted vote of all models."""
    weight_of_arm = np.array([weights[arm] for arm in table.prices])
    labels = weighted_labels(table.votes[items], weight_of_arm, len(table.labels))
    return float((labels == table.truth[items]).mean())


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
