"""Measure what the student and the models' confidences gain: points and cost, with and without them.

    python benchmarks/free_evidence.py student [VOTES.csv …] [--items 10000] [--shuffles 1] [--labels 0.05]
    python benchmarks/free_evidence.py confidences VOTES.csv … [--shuffles 2] [--labels 0.05]

Without a table, the student reads made-up texts about ten topics (``topic_texts.py``),
once with clear topics and once with blurred ones. Points are the percentage of right labels minus that of the
vote of all models, weighted by their true accuracy. Prices are read from the JSON file beside the table. The
policies ignore contexts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from backend.commands.replay.inputs import Shuffle, VotesFile, read_prices
from camvo.policies.joint import Joint
from camvo.policies.policy import Policy
from camvo.replays import measures
from camvo.replays.replay import VotesTable, replay

sys.path.append(str(Path(__file__).parent / "labels_per_dollar"))
from synthetic_votes import SyntheticModel
from topic_texts import draw_topic_texts

MODELS = {
    "largest": SyntheticModel(0.9, 10.0),
    "large": SyntheticModel(0.88, 5.0),
    "middle": SyntheticModel(0.85, 2.0),
    "small": SyntheticModel(0.82, 1.0),
    "smallest": SyntheticModel(0.75, 0.3),
}
TOPICAL = {"clear topics": (0.25, 0.7), "blurred topics": (0.15, 0.5)}
POLICIES: dict[str, Policy] = {
    "joint, worth 20": Joint(worth=20.0),
    "joint, worth 15": Joint(worth=15.0),
    "joint, worth 5": Joint(worth=5.0),
}


def tables(paths: Sequence[Path], items: int) -> Iterator[tuple[str, VotesTable]]:
    """The tables to replay, by name."""
    for name, topical in TOPICAL.items() if not paths else ():
        yield name, draw_topic_texts(MODELS, items=items, topics=10, seed=0, topical=topical)
    for path in paths:
        file = VotesFile.read(path)
        contexts = np.random.default_rng(0).normal(size=(len(file.truth), 8))
        prices = read_prices(None, file.models, path)
        yield (
            path.stem,
            VotesTable(
                file.labels, prices, contexts, file.votes, file.truth, file.confidences, texts=file.texts
            ),
        )


def measured(policy: Policy, table: VotesTable, shuffles: int, labels: float, *, student: bool) -> str:
    """Mean points [worst shuffle] @ mean % of the cost."""
    points, costs = [], []
    for seed in range(shuffles):
        shuffle = Shuffle.draw(table.truth, seed, None, labels)
        items = table.take(shuffle.order)
        trace = replay(policy, items, window=64, human=shuffle.human, student=student)
        full = measures.full_vote(items.votes, items.truth, len(items.labels))
        right, base = (measures.accuracy(each, items.truth) for each in (trace.labels, full))
        points.append(100.0 * (right - base))
        costs.append(100.0 * float(trace.costs.mean()) / items.full_cost)
    return f"{np.mean(points):+.2f} [{min(points):+.2f}] @ {np.mean(costs):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["student", "confidences"])
    parser.add_argument("votes", type=Path, nargs="*")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--shuffles", type=int, default=1)
    parser.add_argument("--labels", type=float, default=0.0)
    options = parser.parse_args()
    student = options.what == "student"
    for name, table in tables(options.votes, options.items):
        blind = replace(table, confidences=None)
        for label, policy in POLICIES.items():
            without = measured(policy, blind, options.shuffles, options.labels, student=False)
            used = measured(
                policy, blind if student else table, options.shuffles, options.labels, student=student
            )
            print(f"{name}, {label}: without {without}; with {options.what} {used}", flush=True)


if __name__ == "__main__":
    main()
