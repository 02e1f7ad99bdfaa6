"""How many tasks it takes to find the best of four texts, and how often one is called better that is not.

    python benchmarks/text_races.py --runs 1000

Four texts are arms: the present one and three others. Each run draws tasks until the race
(``camvo.numerics.sequential_tests``) is over, or 300 tasks are asked about. A text corrects some of the
present text's errors and spoils some of its right answers; these shares are the scenario. Beside it, for the
same runs: the first text whose 95% interval of paired proportions is above zero, looked at after every ten
tasks, as somebody would who reads the page of ``camvo try`` again and again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from camvo.numerics.sequential_tests import Race, compare_paired

PRESENT, RIGHT, MOST = "present", 0.75, 300

SCENARIOS: Final[Mapping[str, tuple[tuple[float, float], ...]]] = {
    "all equal": ((0.06, 0.06),) * 3,
    "all equal, few differ": ((0.02, 0.02),) * 3,
    "two equal, one 5 points worse": ((0.06, 0.06), (0.06, 0.06), (0.03, 0.08)),
    "all 5 points worse": ((0.04, 0.09),) * 3,
    "one 5 points better": ((0.08, 0.03), (0.06, 0.06), (0.06, 0.06)),
    "one 10 points better": ((0.12, 0.02), (0.06, 0.06), (0.06, 0.06)),
    "one 10 points better, more differ": ((0.15, 0.05), (0.06, 0.06), (0.06, 0.06)),
    "10 better, 5 better, equal": ((0.12, 0.02), (0.08, 0.03), (0.06, 0.06)),
    "10 better, two 10 worse": ((0.12, 0.02), (0.02, 0.12), (0.02, 0.12)),
    "one 15 points better": ((0.17, 0.02), (0.06, 0.06), (0.06, 0.06)),
}
"""Scenario → for each other text the share of all tasks that it corrects, and that it spoils."""


@dataclass
class Outcome:
    """What came out of the runs of a scenario."""

    false: int = 0
    called_better: int = 0
    best: int = 0
    peeked_false: int = 0
    tasks: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    dropped: int = 0


def drawn(rng: np.random.Generator, changes: tuple[tuple[float, float], ...]) -> list[dict[str, float]]:
    """The rewards of all texts on random tasks."""
    rows = []
    for _ in range(MOST):
        right = rng.random() < RIGHT
        row = {PRESENT: float(right)}
        for place, (corrected, spoilt) in enumerate(changes):
            chance = 1.0 - spoilt / RIGHT if right else corrected / (1.0 - RIGHT)
            row[str(place)] = float(rng.random() < chance)
        rows.append(row)
    return rows


def raced(rows: list[dict[str, float]]) -> tuple[Race, int]:
    """The race on these tasks, and how often a text was asked about one of them."""
    race, asked = Race(list(rows[0])), 0
    for row in rows:
        if race.is_over:
            break
        asked += len(race.running)
        race.add({way: row[way] for way in race.running})
    return race, asked


def peeked(rows: list[dict[str, float]], every: int = 10) -> str:
    """The text that somebody takes who looks again and again, until an interval is above zero."""
    for tasks in range(every, MOST + 1, every):
        for way in list(rows[0])[1:]:
            found = compare_paired([(row[PRESENT], row[way]) for row in rows[:tasks]])
            if found is not None and found.low > 0.0:
                return way
    return PRESENT


def simulated(changes: tuple[tuple[float, float], ...], runs: int, seed: int) -> Outcome:
    """Simulate one scenario."""
    rng, outcome = np.random.default_rng(seed), Outcome()
    gains = {str(place): corrected - spoilt for place, (corrected, spoilt) in enumerate(changes)}
    gains[PRESENT] = 0.0
    top = max(gains.values())
    for _ in range(runs):
        rows = drawn(rng, changes)
        race, asked = raced(rows)
        outcome.false += race.best != PRESENT and gains[race.best] <= 0.0
        outcome.called_better += any(gains[way] <= 0.0 for way in race.proven)
        outcome.best += top > 0.0 and gains[race.best] == top
        taken = peeked(rows)
        outcome.peeked_false += taken != PRESENT and gains[taken] <= 0.0
        outcome.tasks.append(race.tasks)
        outcome.asked.append(asked)
        outcome.dropped += len(race.dropped)
    return outcome


def main() -> None:
    """Print a table of all scenarios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=34)
    arguments = parser.parse_args()
    columns = (
        "the other texts",
        "called better",
        "false switches",
        "by looking again",
        "best chosen",
        "tasks, mean",
        "95%",
        "asked",
        "dropped",
    )
    print(f"| {' | '.join(columns)} |")
    print(f"{'|---' * len(columns)}|")
    for name, changes in SCENARIOS.items():
        found, runs = simulated(changes, arguments.runs, arguments.seed), arguments.runs
        print(
            f"| {name} | {found.called_better / runs:.1%} | {found.false / runs:.1%} |"
            f" {found.peeked_false / runs:.1%} |"
            f" {found.best / runs:.1%} | {np.mean(found.tasks):.0f} | {np.quantile(found.tasks, 0.95):.0f} |"
            f" {np.mean(found.asked) / (4 * MOST):.0%} | {found.dropped / runs:.1f} |"
        )


if __name__ == "__main__":
    main()
