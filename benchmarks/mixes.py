"""Measure whether the mix that ``camvo quote --target`` names reaches its target, and at which price.

    OMP_NUM_THREADS=1 python benchmarks/mixes.py VOTES.csv … [--runs 10] [--target 0.95] [--blind 200]

Each run draws a job from a table with right labels. Everyone is asked about a pilot; the blind tasks are
labelled by the policy and by people. The mixes are found from these. Then the rest of the job is replayed
with its real votes at the worth of the cheapest mix. People label the share that it names, the least sure
first. What is right then is compared with the target.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from quotes import some, votes_of

from backend.commands.replay import inputs
from camvo.joint.votes import renumber
from camvo.policies.joint import Joint
from camvo.quotes import JointProject, KnownVotes, LabelledVotes, Mix, mixes
from camvo.state.exploration import UNASKED


def truth_of(path: Path, votes: KnownVotes) -> NDArray[np.int64]:
    """The position of the right label of each item; −1 where it is unknown."""
    table = inputs.VotesFile.read(path)
    position = np.array([votes.labels.index(label) for label in table.labels] + [-1])
    return position[table.truth]


def project(
    known: KnownVotes, votes: KnownVotes, worth: float, rng: np.random.Generator
) -> tuple[JointProject, NDArray[np.int64]]:
    """Real votes asked for by the policy, and the votes with those left out that it did not ask for."""
    rows = votes.rows if len(votes.labels) == 2 else renumber(votes.rows)
    done = JointProject(known, rows, worth, rng, growth=2.0).run()
    return done, np.where(done.asked, votes.rows, UNASKED)


def run(path: Path, seed: int, given: argparse.Namespace) -> dict[str, float]:
    votes, rng = votes_of(path), np.random.default_rng([seed, 97])
    truth, base = truth_of(path, votes), Joint().worth
    order = rng.permutation(np.flatnonzero(truth >= 0))[: given.tasks]
    pilot, blind, rest = np.split(order, [given.pilot, given.pilot + given.blind])
    known = some(votes, pilot)
    _, asked = project(known, some(votes, blind), base, rng)
    labelled = LabelledVotes(
        np.concatenate([asked, known.rows[: given.both]]),
        np.concatenate([truth[blind], truth[pilot][: given.both]]),
    )
    found = mixes(known, labelled, len(rest), base, given.target, rng)
    # Prices are in askings of everyone; a person costs given.price of them.
    best: Mix = min(found, key=lambda mix: mix.models + mix.humans_sure * given.price)
    done, partial = project(known, some(votes, rest), base * best.times, rng)
    assert done.fit is not None
    labels, scores = done.fit.leaders(partial)
    first = np.argsort(scores, kind="stable")
    outcome = {"worth": best.times, "quoted": best.models, "models": done.share}
    for name, share in (("likely", best.humans), ("sure", best.humans_sure)):
        right = labels == truth[rest]
        right[first[: round(share * len(rest))]] = True
        outcome |= {f"humans_{name}": share, f"right_{name}": float(right.mean())}
    return outcome | {"alone": float((labels == truth[rest]).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--pilot", type=int, default=200)
    parser.add_argument("--blind", type=int, default=200)
    parser.add_argument("--both", type=int, default=0, help="tasks of the pilot that are labelled, too")
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--price", type=float, default=50.0, help="of a person, in askings of everyone")
    given = parser.parse_args()
    for path in given.votes:
        runs = [run(path, seed, given) for seed in range(given.runs)]
        mean = {name: float(np.mean([one[name] for one in runs])) for name in runs[0]}
        reached = sum(one["right_sure"] >= given.target for one in runs)
        print(
            f"{path.stem}: models alone {mean['alone']:.1%} right; people label {mean['humans_likely']:.1%}:"
            f" {mean['right_likely']:.2%} right; {mean['humans_sure']:.1%}: {mean['right_sure']:.2%} right,"
            f" at least the target in {reached} of {len(runs)}; models {mean['models']:.1%} of asking"
            f" everyone, quoted {mean['quoted']:.1%}; worths {sorted({one['worth'] for one in runs})}"
        )


if __name__ == "__main__":
    main()
