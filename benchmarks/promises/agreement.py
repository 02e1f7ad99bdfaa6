"""How many made-up projects keep the promise of ``agreement``, and at what cost.

    python benchmarks/promises/agreement.py [--projects 200] [--tasks 6000] [--agreement 0.99] [--kinds 0 1]
        [--silent 0.5 [--who dearest|cheapest|all]]

A project keeps it if that share of its labels, or more, equal those of the votes of all models by the plan's
own fit.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from projects import KINDS, TASKS, drawn

from camvo.joint.agreement import AgreementStops
from camvo.joint.plans import Worth, plan_by_worth, prices_without, walk
from camvo.joint.votes import Rows
from camvo.policies.joint import Joint
from camvo.policies.policy import Fit, JointFitData
from camvo.replays.replay import VotesTable
from camvo.stages.stages import cheapest_first
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import (
    ExplorationRound,
    ExplorationSums,
    PatternCounts,
    VotePattern,
    named_labels,
)


class Project:
    """A project that is worked on by the policy's own fits, plans and draws.

    A replay gives the same result and takes several times as long, because it also scores and learns what has
    no effect on agreement and cost.
    """

    def __init__(self, table: VotesTable, agreement: float, seed: int = 0) -> None:
        self._table, self._policy, self._agreement = table, Joint(agreement=agreement), agreement
        self._draws = np.random.default_rng([seed, 1]).random(len(table.truth))
        self._sums, self._evidence = ExplorationSums(), PatternCounts()
        self._arms = tuple(sorted(table.prices))
        self._shares = tuple(sorted(zip(*cheapest_first(table.prices), strict=True)))
        self._fit: Fit | None = None

    def run(self, window: int = 64) -> tuple[float, float]:
        """The share of labels that equal those of all votes, and the cost as a share of asking all."""
        table, same, paid = self._table, 0, 0.0
        column = [list(table.prices).index(arm) for arm in self._arms]
        prices = np.array([table.prices[arm] for arm in self._arms])
        everyone_rounds = 0
        for start in range(0, len(table.truth), window):
            rows = table.votes[start : start + window, column]
            rate = self._policy.exploration_rate(everyone_rounds)
            everyone = self._draws[start : start + window] < rate
            asked, agrees = np.ones(rows.shape, dtype=np.bool_), np.full(len(rows), True)
            if not everyone.all():
                asked[~everyone], agrees[~everyone] = self._follow(rows[~everyone])
            same, paid = same + int(agrees.sum()), paid + float((asked @ prices).sum())
            everyone_rounds += int(everyone.sum())
            self._learn(rows, asked, everyone)
        return same / len(table.truth), paid / (float(prices.sum()) * len(table.truth))

    def _follow(self, rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whom the plan asks about each task, and whether its label is that of all votes."""
        fit, stops = self._fitted()
        joint, unique, place = fit.joint, *np.unique(rows, axis=0, return_inverse=True)
        positions = [joint.arms.index(arm) for arm in joint.shortlist]
        shares = dict(self._shares)
        prices = tuple([shares[arm] for arm in joint.shortlist])

        def without(silent: tuple[int, ...]) -> Worth:
            left = stops.without(silent)
            paid = prices if left is stops else prices_without(silent, range(len(prices)), prices)
            return plan_by_worth(joint.beliefs, paid, left)

        of_shortlist, finished = walk(without(()), unique[:, positions], without=without)
        asked = np.zeros(unique.shape, dtype=np.bool_)
        asked[:, positions], asked[finished] = of_shortlist, True
        agrees = [
            self._label(fit, np.where(some, row, -1)) == self._label(fit, row)
            for row, some in zip(unique, asked, strict=True)
        ]
        return asked[place.reshape(-1)], np.array(agrees)[place.reshape(-1)]

    def _fitted(self) -> tuple[Fit, AgreementStops | None]:
        if self._fit is None or self._sums.evidence is not self._evidence:
            self._evidence, labels = self._sums.evidence, self._table.labels
            prices = tuple([(arm, share / self._policy.worth) for arm, share in self._shares])
            self._fit = JointFitData(
                self._evidence,
                LatestRounds(),
                labels,
                prices,
                agreement=self._agreement,
                shares=self._shares,
            ).compute()
        return self._fit, self._fit.stops

    def _label(self, fit: Fit, row: NDArray[np.int64]) -> str:
        votes = {
            arm: self._table.labels[vote] for arm, vote in zip(self._arms, row, strict=True) if vote >= 0
        }
        said = fit.joint.probabilities(votes)
        return max(said, key=lambda label: said[label])

    def _learn(self, rows: Rows, asked: NDArray[np.bool_], everyone: NDArray[np.bool_]) -> None:
        labels = self._table.labels
        named = named_labels(labels)
        for row, some, all_asked in zip(rows.tolist(), asked.tolist(), everyone.tolist(), strict=True):
            cast = {
                arm: labels[vote] if vote >= 0 else None
                for arm, vote, was_asked in zip(self._arms, row, some, strict=True)
                if was_asked
            }
            pattern = VotePattern.of(self._arms, cast, everyone=all_asked, labels=named)
            self._sums.add(ExplorationRound(pattern, None), +1)


def agreement_and_cost(table: VotesTable, agreement: float) -> tuple[float, float]:
    """As :meth:`Project.run`."""
    return Project(table, agreement).run()


WHO = {"dearest": slice(0, 1), "cheapest": slice(-1, None), "all": slice(None)}
"""The columns of models: prices fall."""


def silenced(table: VotesTable, who: slice, share: float, seed: int) -> VotesTable:
    """The table without some votes of some models."""
    votes = table.votes.copy()
    of_some = votes[:, who]
    of_some[np.random.default_rng([seed, 9]).random(of_some.shape) < share] = -1
    return replace(table, votes=votes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--projects", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--agreement", type=float, default=0.99)
    parser.add_argument("--kinds", type=int, nargs="*", default=range(len(KINDS)))
    parser.add_argument("--silent", type=float, default=0.0)
    parser.add_argument("--who", choices=WHO, default="dearest")
    options = parser.parse_args()
    for number in options.kinds:
        start = time.process_time()
        measured = np.array(
            [
                agreement_and_cost(
                    silenced(
                        drawn(KINDS[number], seed, options.tasks), WHO[options.who], options.silent, seed
                    ),
                    options.agreement,
                )
                for seed in range(options.projects)
            ]
        )
        seconds = time.process_time() - start
        kept, cost = measured[:, 0] >= options.agreement, measured[:, 1]
        print(
            f"{KINDS[number].name:26s} kept in {kept.mean():6.1%} of {len(kept)}; agreement"
            f" {measured[:, 0].mean():.4f} (lowest {measured[:, 0].min():.4f}); cost {cost.mean():.1%}"
            f" ± {cost.std() / np.sqrt(len(cost)):.1%}; {seconds / len(kept):.1f} s each",
            flush=True,
        )


if __name__ == "__main__":
    main()
