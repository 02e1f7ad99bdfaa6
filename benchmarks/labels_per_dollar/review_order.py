"""Count the wrong labels that N human labels correct, for three orders in which people label tasks.

The orders are: at random, lowest score first, and as ``camvo review`` suggests.

    python benchmarks/labels_per_dollar/review_order.py VOTES.csv PRICES.json EMBEDDINGS.npy [--items 3000]

Each draw is a project of its own: random items of the table, decided by a policy without human labels and
scored by the panel. People then label 25 tasks at a time. In between, the calibration is fitted again, as the
server does. Two numbers are counted: the wrong labels among the labelled items, and the labels of other items
that the joint policy corrects after it was fitted to the human labels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joint_fits import fitted, labelled_by
from numpy.typing import NDArray

from backend.commands.replay.inputs import VotesFile
from camvo.policies.named import policy_by_name
from camvo.replays.measures import mean_interval
from camvo.replays.replay import VotesTable, replay
from camvo.scores import calibration, reviews
from camvo.scores.reviews import Candidate
from camvo.scores.scorer import Panel
from camvo.typing import Array

BATCH = 25
COUNTS = (50, 100, 300)
ITEMS = NDArray[np.int64]


@dataclass(frozen=True)
class Decided:
    """A project after its predictions; ``votes`` are −1 where a model was not asked or gave no vote."""

    file: VotesFile
    prices: dict[str, float]
    votes: ITEMS
    labels: ITEMS
    truth: ITEMS
    contexts: Array
    chance: Array

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.labels == self.truth)

    def cast(self, item: int) -> dict[str, str | None]:
        row = zip(self.file.models, self.votes[item].tolist(), strict=True)
        return {model: self.file.labels[vote] for model, vote in row if vote >= 0}

    def scores(self, labelled: ITEMS) -> Array:
        checked = self.right[labelled].astype(np.float64)
        return np.asarray(calibration.fit_calibration(self.chance[labelled], checked)(self.chance))


def decide(policy: str, file: VotesFile, prices: dict[str, float], contexts: Array, items: ITEMS) -> Decided:
    table = VotesTable(
        votes=file.votes[items],
        truth=file.truth[items],
        contexts=contexts[items],
        labels=file.labels,
        prices=prices,
    )
    trace = replay(policy_by_name(policy, {}), table, window=64)
    decided = trace.labels >= 0
    votes = np.where(trace.asked, table.votes, -1)[decided]
    labels = trace.labels[decided]
    panel = Panel.fit(votes[:2000], file.models, len(file.labels))
    chance = panel.chances(votes, len(file.labels))[np.arange(len(labels)), labels]
    return Decided(file, prices, votes, labels, table.truth[decided], table.contexts[decided], chance)


def at_random(project: Decided, rng: np.random.Generator) -> Iterator[ITEMS]:
    order = rng.permutation(len(project.labels))
    yield from (order[start : start + BATCH] for start in range(0, len(order), BATCH))


def lowest_score(project: Decided, rng: np.random.Generator) -> Iterator[ITEMS]:
    order = np.argsort(project.chance, kind="stable")  # calibration keeps this order
    yield from (order[start : start + BATCH] for start in range(0, len(order), BATCH))


def suggested(project: Decided, rng: np.random.Generator) -> Iterator[ITEMS]:
    labelled = np.zeros(0, dtype=np.int64)
    everyone = len(project.file.models)
    while True:
        left = np.setdiff1d(np.arange(len(project.labels)), labelled)
        scores = project.scores(labelled)
        candidates = []
        for item in left.tolist():
            label, score = project.file.labels[project.labels[item]], float(scores[item])
            doubt = reviews.dispute(project.cast(item), label, score, everyone)
            candidates.append(Candidate(item, 1.0 - score, doubt))
        chosen = reviews.suggest(candidates, project.contexts[left], project.contexts[labelled], BATCH)
        batch = np.array([candidate.task for candidate in chosen])
        labelled = np.append(labelled, batch)
        yield batch


Order = Callable[[Decided, np.random.Generator], Iterator[ITEMS]]
ORDERS: dict[str, Order] = {
    "at random": at_random,
    "lowest score first": lowest_score,
    "suggested": suggested,
}


def relearnt(project: Decided, labelled: ITEMS) -> int:
    """The gain in right labels among the other items once the joint policy was fitted to these."""
    names = project.file.labels
    rounds = [project.cast(item) for item in range(len(project.labels))]
    taught = [(rounds[item], names[project.truth[item]]) for item in labelled.tolist()]
    said = labelled_by(fitted(rounds, taught, project.prices, names), rounds)
    others = np.setdiff1d(np.arange(len(project.labels)), labelled)
    return int((said == project.truth)[others].sum()) - int(project.right[others].sum())


def measure(project: Decided, order: Order, rng: np.random.Generator) -> dict[int, tuple[int, int]]:
    """Number of human labels → (wrong labels among the labelled, right labels gained among the others)."""
    batches, labelled, counts = order(project, rng), np.zeros(0, dtype=np.int64), {}
    for count in COUNTS:
        while len(labelled) < count:
            labelled = np.append(labelled, next(batches))
        counts[count] = (int((~project.right[labelled]).sum()), relearnt(project, labelled))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("votes", type=Path)
    parser.add_argument("prices", type=Path, help="JSON with usd_per_million_input_tokens by model")
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    file, contexts = VotesFile.read(options.votes), np.load(options.embeddings).astype(np.float64)
    listed = json.loads(options.prices.read_text())["usd_per_million_input_tokens"]
    prices = {model: float(listed[model]) for model in file.models}
    known = np.flatnonzero(file.truth >= 0)
    for policy in ("majority", "joint"):
        results: dict[str, list[dict[int, tuple[int, int]]]] = {name: [] for name in ORDERS}
        for seed in range(options.draws):
            rng = np.random.default_rng(seed)
            items = rng.permutation(known)[: options.items]
            project = decide(policy, file, prices, contexts, items)
            for name, order in ORDERS.items():
                results[name].append(measure(project, order, rng))
        for name, runs in results.items():
            for count in COUNTS:
                own, others = zip(*(run[count] for run in runs), strict=True)
                sums = [a + b for a, b in zip(own, others, strict=True)]
                cells = " | ".join(_cell(values) for values in (own, others, sums))
                print(f"| {policy} | {count} | {name} | {cells} |", flush=True)


def _cell(values: tuple[int, ...] | list[int]) -> str:
    mean, interval = mean_interval([float(value) for value in values])
    return f"{mean:.1f}" if interval is None else f"{mean:.1f} ± {mean - interval[0]:.1f}"


if __name__ == "__main__":
    main()
