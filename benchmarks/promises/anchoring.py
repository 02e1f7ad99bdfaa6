"""How often people who lean on what they see are found within 300 labels, and how often others are accused.

    python benchmarks/promises/anchoring.py [--runs 300] [--points 0.15]

Made-up people give 300 labels, some of them blind. Whoever sees the vote's label takes it over without a look
as often as raises the share of labels taken by ``--points``. Scores say how often the vote is right; people
err on their own. *Note* is the test that holds at every look (``Anchoring.clear``), looked at after every 20
labels; *interval* is whether the 95% interval after all labels is above 0.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from camvo.annotators import Suggested, anchoring

LABELS, FIRST, STEP = 300, 40, 20


@dataclass(frozen=True)
class Mix:
    """Who labels what.

    Attributes:
        name: its name.
        people: how often each person is right; they label equally often, or as ``shares`` say.
        blind: the share of labels that are blind.
        score: the parameters of the beta distribution of scores.
        lowest_first: whether people see the tasks with the lowest scores first.
        shares: the share of labels of each person; equal if empty.
    """

    name: str
    people: tuple[float, ...] = (0.95, 0.95, 0.95)
    blind: float = 0.5
    score: tuple[float, float] = (5.0, 1.2)
    lowest_first: bool = False
    shares: tuple[float, ...] = ()


USUAL = Mix("3 people, half blind")
MIXES = (
    USUAL,
    replace(USUAL, name="low scores first", lowest_first=True),
    replace(USUAL, name="one person", people=(0.95,)),
    replace(USUAL, name="10 people", people=(0.95,) * 10),
    replace(USUAL, name="6 people, some careful and some not", people=(0.98, 0.98, 0.95, 0.9, 0.8, 0.7)),
    replace(USUAL, name="3 people, one with 70% of the labels", shares=(0.7, 0.2, 0.1)),
    replace(USUAL, name="a third blind", blind=1 / 3),
    replace(USUAL, name="a fifth blind", blind=0.2),
    replace(USUAL, name="four in five blind", blind=0.8),
    replace(USUAL, name="easy tasks", score=(12.0, 1.2)),
    replace(USUAL, name="hard tasks", score=(3.0, 1.5)),
)


def right_of(person: float, right: bool, rng: Generator) -> bool:
    """Whether somebody gives the vote's label: of a wrong one seldom, by the same mistake."""
    return right if rng.random() < person else rng.random() < 0.3


def drawn(mix: Mix, points: float, seed: int) -> list[Suggested]:
    """The labels of one project, in their order."""
    rng = np.random.default_rng(seed)
    scores = np.clip(rng.beta(*mix.score, 2 * LABELS), 0.35, 1.0)
    right = rng.random(2 * LABELS) < scores
    blind, shown = (part.tolist() for part in np.split(rng.permutation(2 * LABELS), 2))
    if mix.lowest_first:
        shown.sort(key=lambda place: scores[place])
    agree = np.mean([scores.mean() * who + (1 - who) * 0.3 for who in mix.people])
    careless = min(points / (1.0 - agree), 1.0)
    shares = mix.shares or [1.0 / len(mix.people)] * len(mix.people)
    labels = []
    for _ in range(LABELS):
        person = int(rng.choice(len(mix.people), p=shares))
        seen = bool(rng.random() >= mix.blind)
        place = (shown if seen else blind).pop(0)
        taken = seen and rng.random() < careless
        agreed = taken or right_of(mix.people[person], bool(right[place]), rng)
        labels.append(Suggested(person, float(scores[place]), seen, bool(agreed)))
    return labels


def found(mix: Mix, points: float, runs: int) -> tuple[float, float, float]:
    """The share of projects with a note, with an interval above 0, and the mean difference."""
    notes = above = 0
    more = []
    for seed in range(runs):
        labels = drawn(mix, points, seed)
        looks = [anchoring(labels[:number]) for number in range(FIRST, LABELS + 1, STEP)]
        notes += any(look is not None and look.clear for look in looks)
        if (last := looks[-1]) is not None:
            above += last.low > 0.0
            more.append(last.more)
    return notes / runs, above / runs, float(np.mean(more))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--points", type=float, default=0.15)
    arguments = parser.parse_args()
    print("| people and tasks | false notes | false intervals | found: note | interval | difference |")
    print("|---" * 6 + "|", flush=True)
    for mix in MIXES:
        note, interval, _ = found(mix, 0.0, arguments.runs)
        noted, above, more = found(mix, arguments.points, arguments.runs)
        print(
            f"| {mix.name} | {note:.1%} | {interval:.1%} | {noted:.1%} | {above:.1%} | {more:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
