"""How often ``recall: {LABEL: TARGET}`` is kept, and what it costs, on one label against the rest.

    python benchmarks/promises/recall.py VOTES.csv:LABEL … [--targets 0.95 0.9 0.8] [--projects 40]
        [--blind 5] [--positives 110] [--kind plain drift early missing copies] [--items 7000]

A project labels the shuffled items without human labels. People then label a random sample of the items
blind, enough for 110 (``--positives``) with the label but half of all items at most; each project is sampled
several times. A run keeps its promise if the tasks found hold that share of the label, or more, of all items.
Kinds: as the table is; "drift": items that most models get wrong come last; "early": the same, with blind
tasks among the first half only, which covers no other; a fifth of the votes missing; three copies of the
model that misses most.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from decided import first, one_against_rest, run
from scores import read, shuffled

from camvo.policies.joint import Joint
from camvo.policies.parameters import ByLabel
from camvo.replays.replay import VotesTable
from camvo.scores.guarantee import label_found

KINDS = ("plain", "drift", "early", "missing", "copies")


def changed(table: VotesTable, kind: str, seed: int) -> VotesTable:
    """The table of a kind."""
    rng, votes = np.random.default_rng([seed, 7]), table.votes
    if kind in {"drift", "early"}:
        wrong = ((votes >= 0) & (votes != table.truth[:, None])).mean(axis=1)
        order = np.argsort(wrong + rng.normal(0.0, 0.3, len(wrong)))
        return replace(table, contexts=table.contexts[order], votes=votes[order], truth=table.truth[order])
    if kind == "missing":
        return replace(table, votes=np.where(rng.random(votes.shape) < 0.2, -1, votes))
    if kind == "copies":
        names = list(table.prices)
        worst = int((votes[table.truth == 1] == 1).mean(axis=0).argmin())
        copied = np.repeat(votes[:, [worst]], 2, axis=1)
        copied = np.where(rng.random(copied.shape) < 0.02, 1 - np.abs(copied), copied)
        prices = table.prices | {f"{names[worst]} {copy}": table.prices[names[worst]] for copy in "ab"}
        return replace(table, votes=np.hstack((votes, copied)), prices=prices)
    return table


def measured(
    table: VotesTable, target: float, kind: str, seed: int, *, samples: int, positives: int
) -> tuple[list[tuple[float, float, float, float]], tuple[float, float, float, float]]:
    """For each sample: whether it certifies, recall, share found, precision; and the project's measures."""
    table = changed(table, kind, seed)
    decided = run(Joint(recall=ByLabel({table.labels[1]: target})), table, seed)
    has, scores, rng = table.truth == 1, decided.likely[:, 1], np.random.default_rng([seed, 3])
    among = len(scores) // 2 if kind == "early" else len(scores)
    size = min(int(np.ceil(positives / max(has[:among].mean(), 1e-9))), among // 2)
    rows = []
    for _ in range(samples):
        blind = rng.permutation(among)[:size]
        found = label_found([(float(scores[at]), bool(has[at])) for at in blind], target)
        if found is None:
            rows.append((0.0, np.nan, np.nan, np.nan))
            continue
        ours = scores >= found.threshold
        rows.append((1.0, float(ours[has].mean()), float(ours.mean()), float(has[ours].mean())))
    said = decided.labels == 1
    return rows, (decided.cost, float(said[has].mean()), float((said == has).mean()), size)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="+", metavar="VOTES.csv:LABEL")
    parser.add_argument("--targets", type=float, nargs="*", default=[0.95, 0.9, 0.8])
    parser.add_argument("--projects", type=int, default=40)
    parser.add_argument("--blind", type=int, default=5)
    parser.add_argument("--positives", type=int, default=110)
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=["plain"])
    parser.add_argument("--items", type=int, default=7000)
    options = parser.parse_args()
    for named in options.tables:
        path, _, label = named.rpartition(":")
        table = read(Path(path))
        table = one_against_rest(table, table.labels.index(label))
        share = 100.0 * float((table.truth == 1).mean())
        print(f"{Path(path).stem}, {label!r} is {share:.1f}% of {len(table.truth)} items", flush=True)
        for kind in options.kind:
            for target in options.targets:
                rows, projects = [], []
                for seed in range(options.projects):
                    some, project = measured(
                        first(shuffled(table, seed), options.items),
                        target,
                        kind,
                        seed,
                        samples=options.blind,
                        positives=options.positives,
                    )
                    rows += some
                    projects.append(project)
                found, (cost, recall, right, size) = np.array(rows), np.mean(projects, axis=0)
                sure = found[found[:, 0] == 1.0]
                kept = float((sure[:, 1] >= target).mean()) if len(sure) else np.nan
                mean = sure.mean(axis=0) if len(sure) else np.full(4, np.nan)
                print(
                    f"  {kind:7s} {target:.2f}: {size:.0f} blind, certified {found[:, 0].mean():.1%}, kept"
                    f" {kept:.1%}, recall {mean[1]:.3f} (lowest {sure[:, 1].min(initial=1.0):.3f}), found"
                    f" {mean[2]:.1%} of the tasks, {mean[3]:.1%} of them right; cost {cost:.1%}; by labels:"
                    f" recall {recall:.3f}, right {right:.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
