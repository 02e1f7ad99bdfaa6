"""Measure the bill of the same labels at once, in providers' batches, and in batches of packed prompts.

    OMP_NUM_THREADS=1 python benchmarks/batches.py VOTES.csv … [--items 5000] [--stages 3] [--seed 0]

Each table is replayed twice with the policy ``joint``. At once, items are asked one after another at list
price. In batches, a first window is asked at once, or in batches of its own if there are few items, as
``camvo label --batch`` does. Every other item is then asked in so many rounds of batches, at half the price.
In each round all items are planned with what the earlier rounds have taught, and their coins are drawn once.

Packing multiplies every price by the same share, which ``benchmarks/packing.py`` measures on the table's
texts, with the coin that asks some tasks singly, too. So the votes are those of the batches without packs:
what packing costs in accuracy is not in these numbers. Printed is a row of a Markdown table: bills in % of
asking every model at list price, their ratios to the bill at once, and the percentages of right labels.
Prices are read from the JSON file beside the table. The policy ignores contexts beside the draw.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from packing import read_texts, usage

import camvo
from backend.annotation.asking import COIN
from backend.commands.bulk.batch_run import _AT_ONCE_FROM, _FIRST_WINDOW
from backend.commands.replay.inputs import VotesFile, read_prices
from camvo.policies.policy import ORDINARY, Conditions, Drawn, Fit, Plan, Waiting, fitted

QUESTION = "label"
DISCOUNT = 0.5
PACK = 20
HEADINGS = (
    "table|items|at once|batches|ratio|packed price|packs in batches|ratio|right at once|right in batches"
)
REFIT = 1.1
"""A fit is computed again when the rounds have grown by this factor, as the server's background fits are."""

Row = tuple[Mapping[str, str | None], str]


@dataclass
class Learner:
    """A state, its latest fit, and what was spent at list price."""

    labels: tuple[str, ...]
    prices: Mapping[str, float]
    state: camvo.State = field(default_factory=lambda: camvo.State(dimension=2))
    right: int = 0
    paid: float = 0.0
    _fit: Fit | None = None
    _due: float = 0.0

    def plan(self, policy: camvo.Joint, context: np.ndarray, conditions: Conditions = ORDINARY) -> Plan:
        observation = camvo.Observation(self.state, context, self.labels)
        if self.state.rounds >= self._due:
            data = policy.fit_data(observation, self.prices)
            self._fit, self._due = None if data is None else fitted(data), self.state.rounds * REFIT
        return policy.plan({QUESTION: replace(observation, fit=self._fit)}, self.prices, conditions)

    def ask(self, row: Row, arms: Sequence[str], votes: dict[str, Mapping[str, str]]) -> None:
        for arm in arms:
            vote = row[0].get(arm)
            votes[arm] = {} if vote is None else {QUESTION: vote}
            self.paid += self.prices[arm]

    def finish(
        self, policy: camvo.Joint, plan: Plan, row: Row, votes: Mapping[str, Mapping[str, str]]
    ) -> None:
        decision = policy.decide(plan, votes).get(QUESTION)
        if decision is not None:
            self.right += decision.label == row[1]
            self.state.add(policy.contribution(plan, QUESTION, votes, decision.label))


def at_once(learner: Learner, rows: Sequence[Row], contexts: np.ndarray) -> None:
    policy = camvo.Joint()
    for row, context in zip(rows, contexts, strict=True):
        plan = learner.plan(policy, context)
        votes: dict[str, Mapping[str, str]] = {}
        while arms := policy.ask(plan, votes):
            learner.ask(row, arms, votes)
        learner.finish(policy, plan, row, votes)


def in_batches(learner: Learner, rows: Sequence[Row], contexts: np.ndarray, stages: int) -> None:
    waiting = Waiting()
    left = {item: ({}, None) for item in range(len(rows))}
    for stage in range(stages + 1):
        for item, (votes, earlier) in list(left.items()):
            drawn = earlier
            policy = camvo.Joint()
            conditions = Conditions(waiting=waiting, stages=stages - stage, drawn=drawn)
            plan = learner.plan(policy, contexts[item], conditions)
            arms = policy.ask(plan, votes)
            if arms and stage < stages:
                learner.ask(rows[item], arms, votes)
                if drawn is None:
                    drawn = Drawn.of(plan.stages)
                    explores = int(drawn.exploration == "everyone")
                    waiting = Waiting(waiting.rounds + 1, waiting.everyone + explores)
                left[item] = (votes, drawn)
                continue
            learner.finish(policy, plan, rows[item], votes)
            waiting = Waiting(waiting.rounds - 1, waiting.everyone - int(drawn.exploration == "everyone"))
            del left[item]


def rows_of(path: Path, number: int, seed: int) -> tuple[tuple[str, ...], dict[str, float], list[Row]]:
    """The label set, the prices, and a random sample of the items."""
    file = VotesFile.read(path)
    labels, prices = tuple(file.labels), dict(read_prices(None, file.models, path))
    order = np.random.default_rng(seed).permutation(len(file.truth))[:number]
    rows = [
        (
            {
                arm: labels[vote] if vote >= 0 else None
                for arm, vote in zip(prices, file.votes[at], strict=True)
            },
            labels[file.truth[at]],
        )
        for at in order
    ]
    return labels, prices, rows


def bills(path: Path, number: int, stages: int, seed: int) -> str:
    labels, prices, rows = rows_of(path, number, seed)
    contexts = np.random.default_rng(seed).normal(size=(len(rows), 2))
    everyone = sum(prices.values()) * len(rows)
    once, batched = Learner(labels, prices), Learner(labels, prices)
    at_once(once, rows, contexts)
    window = min(_FIRST_WINDOW, len(rows) // 20)
    large = len(rows) >= _AT_ONCE_FROM
    if large:
        at_once(batched, rows[:window], contexts[:window])
    else:
        in_batches(batched, rows[:window], contexts[:window], stages)
    first = batched.paid if large else 0.0
    in_batches(batched, rows[window:], contexts[window:], stages)
    bill = first + (batched.paid - first) * (1.0 - DISCOUNT)
    share = packed_share(path, seed)
    cells = [
        f"{len(rows):,}",
        f"{100 * once.paid / everyone:.1f}%",
        f"{100 * bill / everyone:.1f}%",
        f"{bill / once.paid:.3f}",
        f"{100 * share:.0f}%",
        f"{100 * share * bill / everyone:.1f}%",
        f"{share * bill / once.paid:.3f}",
        f"{100 * once.right / len(rows):.1f}%",
        f"{100 * batched.right / len(rows):.1f}%",
    ]
    return f"| {path.stem} | {' | '.join(cells)} |"


def packed_share(path: Path, seed: int) -> float:
    """The price of a label in packs, with what the coin asks singly, in prices of a label asked singly."""
    labels = json.loads(path.with_suffix(".json").read_text())["labels"]
    rng = random.Random(seed)  # noqa: S311 - a sample, no secret
    texts = read_texts(path, 1000, rng)
    alone, packed = (usage(texts, labels, size, rng).dollars(1.0) for size in (1, PACK))
    return packed / alone + COIN


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"| {HEADINGS.replace('|', ' | ')} |\n|{'---|' * (HEADINGS.count('|') + 1)}")
    for path in arguments.tables:
        print(bills(path, arguments.items, arguments.stages, arguments.seed), flush=True)


if __name__ == "__main__":
    main()
