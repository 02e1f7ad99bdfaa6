"""Compare fits of the joint policy with the plain majority, on every kind of disaster.

    python benchmarks/labels_per_dollar/disasters.py [--quick] [--draws 20] [--kind WORD] [--labels 0]
        [--wrong] [--rounds 300,600,1000]

Every model is asked about the first items of a drawn table, of 300, 600 or 1,000 by turns. People label none
of these, or ``--labels`` random ones; with ``--wrong``, only items to which votes alone give a wrong label.
The fit then labels all items that people have not labelled. Points are the percentage of right labels minus
that of the plain majority, and minus that of the vote weighted by true accuracies; the mean over draws [the
worst draw]. Prints Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from comparison import table
from joint_fits import Cast, fitted, labelled_by
from made_up.disasters import KINDS
from made_up.drawing import Kind, drawn
from numpy.typing import NDArray

from camvo.replays.replay import VotesTable
from camvo.typing import Array

ROUNDS = (300, 600, 1000)
_QUICK_DRAWS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """The share of right labels, in percent, of a fit and of two votes on one drawn table."""

    kind: str
    joint: float
    majority: float
    weighted: float


def outcome(
    kind: Kind, seed: int, labels: int = 0, of: Sequence[int] = ROUNDS, *, wrong: bool = False
) -> Outcome:
    """Draw a table, fit it with human labels, at random or of wrong labels, and label its other items."""
    votes = drawn(kind, seed).table
    rounds, asked = list(casts(votes)), of[seed % len(of)]
    order = np.random.default_rng([seed, 1]).permutation(asked)
    if wrong:
        free = labelled_by(fitted(rounds[:asked], [], dict(votes.prices), votes.labels), rounds)
        order = order[free[order] != votes.truth[order]]
    known = np.sort(order[:labels])
    taught = [(rounds[item], votes.labels[votes.truth[item]]) for item in known]
    fit = fitted(rounds[:asked], taught, dict(votes.prices), votes.labels)
    others = np.setdiff1d(np.arange(len(rounds)), known)
    right = [(said == votes.truth)[others] for said in (labelled_by(fit, rounds), *plain_votes(votes))]
    return Outcome(kind.name, *(100.0 * float(each.mean()) for each in right))


def casts(votes: VotesTable) -> Iterator[Cast]:
    """The votes on each item, as arm → label."""
    arms, labels = list(votes.prices), (*votes.labels, None)
    for row in votes.votes.tolist():
        yield {arm: labels[vote] for arm, vote in zip(arms, row, strict=True)}


def plain_votes(votes: VotesTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The labels of the majority, and of the vote weighted by log-odds of true accuracies, shapes (n,).

    Ties of the majority are broken at random.
    """
    cast = votes.votes[:, :, None] == np.arange(len(votes.labels))
    voted = (votes.votes >= 0).sum(axis=0)
    right = ((votes.votes == votes.truth[:, None]).sum(axis=0) + 1.0) / (voted + 2.0)
    odds: Array = np.log(right * max(len(votes.labels) - 1, 1)) - np.log1p(-right)
    ties = np.random.default_rng(0).random(cast.shape[::2]) / 2.0
    return (cast.sum(axis=1) + ties).argmax(axis=1), np.einsum("nkm,k->nm", cast, odds).argmax(axis=1)


def _line(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    joint, majority, weighted = np.array([(o.joint, o.majority, o.weighted) for o in outcomes]).T
    against = [f"{gap.mean():+.1f} [{gap.min():+.1f}]" for gap in (joint - majority, joint - weighted)]
    return [name, f"{majority.mean():.1f}", *against]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first draw")
    parser.add_argument("--labels", type=int, default=0, help="how many random items people label")
    parser.add_argument("--wrong", action="store_true", help="people label only items with a wrong label")
    parser.add_argument("--rounds", default=",".join(map(str, ROUNDS)), help="how many items are asked about")
    parser.add_argument("--kind", default="", help="only kinds whose name contains this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK_DRAWS} draws of each kind")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.kind in kind.name]
    draws = _QUICK_DRAWS if options.quick else options.draws
    seeds, of = range(options.first, options.first + draws), [*map(int, options.rounds.split(","))]
    jobs = [(kind, seed, options.labels, of) for kind in kinds for seed in seeds]
    labelled = partial(outcome, wrong=options.wrong)
    with ProcessPoolExecutor(options.processes) as pool:
        outcomes = list(pool.map(labelled, *zip(*jobs, strict=True)))
    lines = [_line(kind.name, [o for o in outcomes if o.kind == kind.name]) for kind in kinds]
    print(table(["kind", "majority", "minus the majority", "minus the weighted vote"], lines))


if __name__ == "__main__":
    main()
