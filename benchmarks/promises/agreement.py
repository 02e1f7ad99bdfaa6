"""How many made-up projects keep the promise of ``agreement``, and at what cost.

    python benchmarks/promises/agreement.py [--projects 200] [--tasks 6000] [--agreement 0.99] [--kinds 0 1]
        [--rules "held-out" "same rounds"]

A project keeps it if that share of its labels, or more, equal the vote of all models at the weights of the
plan. "held-out" is the rule of ``camvo.stages.stopping``; "same rounds" is the one before it, which was chosen
and bounded on the same rounds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from projects import KINDS, TASKS, drawn

from camvo.policies import sequential
from camvo.policies.plan import Plan
from camvo.policies.sequential import Sequential
from camvo.replays.replay import replay
from camvo.replays.votes_table import VotesTable
from camvo.stages import stopping
from camvo.stages.stopping import StoppingProblem
from camvo.stages.stopping_rule import StoppingRule


@dataclass(frozen=True, kw_only=True)
class Watched(Sequential):
    """Sequential voting that remembers its plans."""

    plans: list[Plan] = field(default_factory=list, compare=False, hash=False)

    def assemble(self, *inputs: Any) -> Plan:
        self.plans.append(super().assemble(*inputs))
        return self.plans[-1]


class SameRounds(StoppingProblem):
    """The rule before this one: the bound is on the smoothed errors of the rounds that chose the rule."""

    def learned_rule(self, stages: int, agreement: float) -> StoppingRule | None:
        if not self._patterns:
            return None
        estimates, best = self._estimates(self._counts[None]), None
        low, high = 0, len(stopping._PRICES)
        while low < high:
            middle = (low + high) // 2
            solution = self._solve(estimates, stages, float(stopping._PRICES[middle]))
            error = self._smoothed(solution, estimates) / self.rounds
            if self._bound(error * self.rounds) <= 1.0 - agreement:
                best, high = (solution, error), middle
            else:
                low = middle + 1
        return None if best is None else self._reachable_rule(*best)

    def _smoothed(self, solution: Any, estimates: Any) -> float:
        """The errors that the smoothed risks expect where the rounds end."""
        paths, risk = [path[0] for path in self._paths(solution)], np.zeros(len(self._counts))
        for position in range(self._arms):
            here = paths[-1] == position
            risk[here] = estimates.risk[position][0, self._cells.cell[position][here]]
            if len(paths) > 1:
                on = (paths[-2] == position) & (paths[-1] > position) & (paths[-1] < self._arms - 1)
                risk[on] += estimates.unseen[position][0, self._cells.cell[position][on]]
        return float(self._counts @ risk)


RULES = {"held-out": StoppingProblem, "same rounds": SameRounds}


def agreement_and_cost(table: VotesTable, agreement: float, window: int = 64) -> tuple[float, float]:
    """The share of labels that equal the vote of all models, and the cost as a share of asking them all."""
    policy = Watched(agreement=agreement)
    trace = replay(policy, table, window=window)
    arms = list(table.prices)
    same = []
    for plan, row, label in zip(policy.plans, table.votes.tolist(), trace.labels.tolist(), strict=True):
        votes = {arm: {"label": table.labels[vote]} if vote >= 0 else {} for arm, vote in zip(arms, row, strict=True)}
        full = policy.decide(plan, votes).get("label")
        if full is not None:
            same.append(label >= 0 and table.labels[label] == full.label)
    return float(np.mean(same)), float(trace.costs.sum() / (sum(table.prices.values()) * len(same)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--projects", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--agreement", type=float, default=0.99)
    parser.add_argument("--kinds", type=int, nargs="*", default=range(len(KINDS)))
    parser.add_argument("--rules", nargs="*", default=list(RULES))
    options = parser.parse_args()
    for number in options.kinds:
        for name in options.rules:
            sequential.StoppingProblem = RULES[name]  # type: ignore[misc]
            sequential._rules.cache_clear()
            sequential._order_and_stages.cache_clear()
            start = time.perf_counter()
            measured = np.array(
                [
                    agreement_and_cost(drawn(KINDS[number], seed, options.tasks), options.agreement)
                    for seed in range(options.projects)
                ]
            )
            kept, cost = measured[:, 0] >= options.agreement, measured[:, 1]
            print(
                f"{KINDS[number].name:26s} {name:12s} kept in {kept.mean():6.1%} of {len(kept)}; agreement"
                f" {measured[:, 0].mean():.4f} (lowest {measured[:, 0].min():.4f}); cost {cost.mean():.1%}"
                f" ± {cost.std() / np.sqrt(len(cost)):.1%}; {(time.perf_counter() - start) / len(kept):.1f} s each",
                flush=True,
            )


if __name__ == "__main__":
    main()
