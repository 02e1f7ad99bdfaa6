"""How many made-up projects keep the promise of ``agreement``, and at what cost.

    python benchmarks/promises/agreement.py [--projects 200] [--tasks 6000] [--agreement 0.99] [--kinds 0 1]
        [--rules "held-out" "same rounds"]

A project keeps it if that share of its labels, or more, equal the vote of all models at the weights of the
plan. "held-out" is the rule of ``camvo.stages.stopping``; "same rounds" is the one before it, which was
chosen and bounded on the same rounds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from projects import KINDS, TASKS, drawn

from camvo.numerics.proportion import upper_bound
from camvo.policies import sequential
from camvo.policies.sequential import Sequential, _order_and_stages, _propensities, _QuestionInputs
from camvo.replays.votes_table import VotesTable
from camvo.stages import stopping
from camvo.stages.agreement_stages import AgreementStages, _leader
from camvo.stages.exploration import explore
from camvo.stages.stopping import StoppingProblem
from camvo.stages.stopping_rule import StoppingRule, is_certain
from camvo.state.vote_patterns import SILENT, ExplorationRound, ExplorationSums, VotePattern, canonical


class SameRounds(StoppingProblem):
    """The rule before this one: the bound is on the smoothed errors of the rounds that chose the rule."""

    _LEVEL = 0.95

    def learned_rule(self, stages: int, agreement: float) -> StoppingRule | None:
        if not self._patterns:
            return None
        estimates, best = self._estimates(self._counts[None]), None
        low, high = 0, len(stopping._PRICES)
        while low < high:
            middle = (low + high) // 2
            solution = self._solve(estimates, stages, float(stopping._PRICES[middle]))
            error = self._smoothed(solution, estimates) / self.rounds
            if upper_bound(error * self.rounds, self.rounds, self._LEVEL) <= 1.0 - agreement:
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


class Project:
    """A project that is worked on by the policy's own weights, rules and coin; its votes are counted once.

    A replay gives the same result and takes four times as long, because it also plans, scores and learns
    what has no effect on agreement and cost.
    """

    def __init__(self, table: VotesTable, agreement: float, seed: int = 0) -> None:
        self._table, self._policy = table, Sequential(agreement=agreement)
        self._draws = np.random.default_rng([seed, 1]).random(len(table.truth))
        self._sums = ExplorationSums()
        self._arms = tuple(sorted(table.prices))
        self._stages: AgreementStages | None = None
        self._ends: dict[Any, tuple[int, bool]] = {}

    def run(self, window: int = 64) -> tuple[float, float]:
        """The share of labels that equal the vote of all models, and the cost as a share of asking all."""
        table, same, paid = self._table, 0, 0.0
        costs = tuple(table.prices.items())
        for start in range(0, len(table.truth), window):
            inputs = _QuestionInputs("q", self._sums.evidence, table.labels, True, None)
            order, questions, settled = _order_and_stages(self._policy, costs, (inputs,))
            chances = _propensities(start, questions.values(), settled=settled)
            prices = np.cumsum([table.prices[arm] for arm in order])
            column = [list(table.prices).index(arm) for arm in order]
            for votes, draw in zip(
                table.votes[start : start + window, column].tolist(), self._draws[start:], strict=False
            ):
                exploration = explore(draw, *chances)
                asked, agrees = self._asked(tuple(votes), questions["q"], exploration)
                same, paid = same + agrees, paid + float(prices[asked - 1])
                if exploration != "nobody":
                    by_arm = dict(zip(order[:asked], ("" if v < 0 else str(v) for v in votes), strict=False))
                    cast = {arm: vote or None for arm, vote in by_arm.items()}
                    pattern = VotePattern.of(self._arms, cast, everyone=exploration == "everyone")
                    self._sums.add(ExplorationRound(pattern, None), 1)
        return same / len(table.truth), paid / (sum(table.prices.values()) * len(table.truth))

    def _asked(self, votes: tuple[int, ...], stages: AgreementStages, exploration: str) -> tuple[int, bool]:
        """How many models are asked, and whether their label is that of all models."""
        if exploration == "everyone":
            return len(votes), True
        groups = canonical(vote if vote >= 0 else SILENT for vote in votes)
        if stages is not self._stages:
            self._stages = stages
            self._ends.clear()
        key = groups, exploration
        if key not in self._ends:
            rule = stages.rule if exploration == "certificate" or stages.trial is None else stages.trial
            asked = rule.first
            for stage in range(len(rule.moves)):
                if asked == len(groups) or is_certain(groups[:asked], stages.weights):
                    break
                upto = rule.after(stage, groups[:asked], len(groups))
                if upto <= asked:
                    break
                asked = upto
            label = _leader(groups[:asked], stages.weights)
            self._ends[key] = asked, label == _leader(groups, stages.weights)
        return self._ends[key]


def agreement_and_cost(table: VotesTable, agreement: float) -> tuple[float, float]:
    """As :meth:`Project.run`."""
    return Project(table, agreement).run()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
            start = time.process_time()
            measured = np.array(
                [
                    agreement_and_cost(drawn(KINDS[number], seed, options.tasks), options.agreement)
                    for seed in range(options.projects)
                ]
            )
            seconds = time.process_time() - start
            kept, cost = measured[:, 0] >= options.agreement, measured[:, 1]
            print(
                f"{KINDS[number].name:26s} {name:12s} kept in {kept.mean():6.1%} of {len(kept)}; agreement"
                f" {measured[:, 0].mean():.4f} (lowest {measured[:, 0].min():.4f}); cost {cost.mean():.1%}"
                f" ± {cost.std() / np.sqrt(len(cost)):.1%}; {seconds / len(kept):.1f} s each",
                flush=True,
            )


if __name__ == "__main__":
    main()
