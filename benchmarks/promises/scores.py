"""The error of the shown score, without human labels, with 100 and with 500.

    python benchmarks/promises/scores.py [VOTES.csv …] [--made-up KIND …] [--shuffles 1] [--labels 0 100 500]
        [--items 25000] [--maps now before]

The default policy is replayed. People label random items of the first half, at most the first 2,000. The ECE
is that of the scores of all later items, in 15 bins. The noise floor is the mean ECE that perfect scores
would have: outcomes are drawn again from the scores. "high" is the mean score less the share right, and AURC
the mean error rate of the items with the highest scores, over all numbers of them. With several shuffles,
brackets hold the largest ECE. "before" is the calibration map as it was before this one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from backend.commands.replay import inputs
from camvo.policies.joint import Joint
from camvo.replays.measures import accuracy, calibration_error, risk_coverage_area
from camvo.replays.replay import VotesTable, calibrated_scores, replay
from camvo.scores import calibration

sys.path.append(str(Path(__file__).parent.parent / "labels_per_dollar"))

import made_up

EARLY = 2000
ITEMS = 5000
"""Made-up tables have at most this many items."""
REDRAWN = 20
MAPS = {
    "now": (calibration._PRIOR_COVARIANCE, calibration._GATE),
    "before": (np.diag((0.2, 0.2, 0.3)) ** 2, 2.0),
}


def read(path: Path) -> VotesTable:
    """The table of a votes file, without contexts and without the models' own confidences."""
    file = inputs.VotesFile.read(path)
    models = [model for model in file.models if not model.startswith("conf_")]
    votes = file.votes[:, [list(file.models).index(model) for model in models]]
    used = np.unique(np.concatenate((votes.ravel(), file.truth)))
    used = used[used >= 0]
    position = np.full(len(file.labels) + 1, -1)
    position[used] = np.arange(len(used))
    costs = inputs.read_prices(None, models, path)
    contexts = np.random.default_rng(0).normal(size=(len(file.truth), 2))
    labels = tuple(file.labels[label] for label in used)
    return VotesTable(labels, costs, contexts, position[votes], position[file.truth])


def shuffled(table: VotesTable, seed: int) -> VotesTable:
    order = np.random.default_rng([seed, 0]).permutation(len(table.truth))
    return replace(table, contexts=table.contexts[order], votes=table.votes[order], truth=table.truth[order])


def measure(table: VotesTable, labels: int, maps: list[str]) -> list[tuple[float, float, float, float]]:
    """The ECE of the later items, its noise floor, the bias and the AURC, for each kind of calibration."""
    early = min(EARLY, len(table.truth) // 2)
    human = np.zeros(len(table.truth), dtype=np.bool_)
    human[np.random.default_rng([labels, 5]).permutation(early)[:labels]] = True
    human &= table.truth >= 0
    trace = replay(Joint(), table, window=64, human=human if labels else None)
    measured = []
    for name in maps:
        calibration._PRIOR_COVARIANCE, calibration._GATE = MAPS[name]
        scores = calibrated_scores(trace, table, human, growth=1.0)[early:]
        chosen, truth = trace.labels[early:], table.truth[early:]
        error = calibration_error(chosen, scores, truth)
        rng, floors = np.random.default_rng(1), []
        for _ in range(REDRAWN):
            right = rng.random(len(scores)) < scores
            redrawn = np.where(right, chosen, (chosen + 1) % len(table.labels))
            floors.append(calibration_error(chosen, scores, np.where(truth >= 0, redrawn, -1)))
        known = (truth >= 0) & (chosen >= 0)
        high = float(scores[known].mean()) - (accuracy(chosen[known], truth[known]) or 0.0)
        area = risk_coverage_area(chosen, scores, truth)
        measured.append((float(error or 0.0), float(np.mean(floors)), high, float(area or 0.0)))
    return measured


def tables(
    paths: list[Path], kinds: list[str], shuffles: int, items: int
) -> Iterator[tuple[str, list[VotesTable]]]:
    for path in paths:
        table, shown = read(path), np.arange(items)
        yield (
            path.stem,
            [(whole := shuffled(table, seed)).take(shown[: len(whole.truth)]) for seed in range(shuffles)],
        )
    for name in kinds:
        kind = made_up.KINDS[name]
        drawn = [made_up.drawn(kind, seed, min(kind.items, items, ITEMS)).table for seed in range(shuffles)]
        yield f"{name} ({kind.labels} labels)", drawn


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="*")
    parser.add_argument("--made-up", choices=made_up.KINDS, nargs="*", default=[], metavar="KIND")
    parser.add_argument("--shuffles", type=int, default=1)
    parser.add_argument("--labels", type=int, nargs="*", default=[0, 100, 500])
    parser.add_argument("--items", type=int, default=25000)
    parser.add_argument("--maps", nargs="*", default=list(MAPS))
    options = parser.parse_args()
    for name, drawn in tables(options.votes, options.made_up, options.shuffles, options.items):
        for labels in options.labels:
            measured = np.array([measure(table, labels, options.maps) for table in drawn])
            row = "; ".join(
                f"{map_} {error:.3f} [{worst:.3f}] (floor {floor:.3f}), {high:+.3f} high, AURC {area:.4f}"
                for map_, (error, floor, high, area), worst in zip(
                    options.maps, measured.mean(axis=0), measured[:, :, 0].max(axis=0), strict=True
                )
            )
            print(f"{name:34s} {labels:4d} labels: {row}", flush=True)


if __name__ == "__main__":
    main()
