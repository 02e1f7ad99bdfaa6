"""Sequential voting: everybody's label, for the price of those whose votes can still change it.

The target is the weighted vote of all models. They are asked in stages, the cheapest first, until the leader
is certain to win or, in the light of past rounds, likely enough to: see ``docs/sequential.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from camvo.aggregation import LABEL_VOTE
from camvo.contribution import Contribution
from camvo.ensemble import Ensemble
from camvo.errors import InvalidParameterError
from camvo.estimates import Observation
from camvo.near_copies import near_copies_in
from camvo.one_coin import accuracies, completed, log_odds
from camvo.plan import Plan
from camvo.probes import Evidence, Pattern, Signature, canonical
from camvo.rule import Rule
from camvo.stages import Coin, Path, Stages, cheapest_first, propensities, throw
from camvo.stopping import Stopping
from camvo.typing import Array, Votes


@dataclass(frozen=True, kw_only=True)
class Sequential(Ensemble):
    """Ask in stages, and stop when the label of all models together is certain or likely enough.

    Attributes:
        agreement: at least this share of the labels is what all models together would have said, in [0, 1];
            1 stops at certificates alone.
        max_stages: how often models may be waited for; 1 asks one set, K can ask one after another.
    """

    agreement: float = 0.99
    max_stages: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.agreement <= 1.0:
            raise InvalidParameterError(f"agreement is a share of the labels, got {self.agreement}")
        if self.max_stages < 1:
            raise InvalidParameterError(f"models are asked in at least one stage, got {self.max_stages}")

    def plan_window(
        self, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
    ) -> list[Plan]:
        """Freeze weights, order and rules, and throw the coins; nobody has voted yet."""
        plans = super().plan_window(tasks, costs)
        order, shares = cheapest_first(costs)
        return [self._staged(plan, task, order, shares) for plan, task in zip(plans, tasks, strict=True)]

    def _staged(
        self,
        plan: Plan,
        observations: Mapping[str, Observation],
        order: tuple[str, ...],
        shares: tuple[float, ...],
    ) -> Plan:
        found = {
            question: self._studied(seen, order, shares) for question, seen in sorted(observations.items())
        }
        stages = self._stages(observations, order, found)
        places = [order.index(arm) for arm in plan.arms]
        weights = {
            question: np.array(found[question][0])[places]
            if seen.aggregation == LABEL_VOTE
            else plan.weights[question]
            for question, seen in observations.items()
        }
        return plan.staged(stages, weights, stages.propensity[0])

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The next stage; nobody where every question is decided."""
        return _of(plan).ask(votes)

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """Rewards of the arms that were not asked because of the votes, and what a coin's round shows."""
        stages = _of(plan)
        taught = super().contribution(plan, question, votes, label, human=human)
        if plan.estimates[question].aggregation != LABEL_VOTE:
            return taught
        return replace(taught, probe=stages.probe(question, votes))

    def _studied(
        self, seen: Observation, order: tuple[str, ...], shares: tuple[float, ...]
    ) -> tuple[tuple[float, ...], Rule, Rule | None]:
        """Weights along the order, the rule that is certain and, where there is one, the learned rule."""
        if seen.aggregation != LABEL_VOTE:
            everyone = Rule(len(order), ({},) * (self.max_stages - 1), certain=True)
            return (1.0,) * len(order), everyone, None
        return _study(
            seen.state.probes.evidence, order, shares, len(seen.labels), self.max_stages, self.agreement
        )

    def _stages(
        self,
        observations: Mapping[str, Observation],
        order: tuple[str, ...],
        found: Mapping[str, tuple[tuple[float, ...], Rule, Rule | None]],
    ) -> Stages:
        rounds = min(seen.state.rounds for seen in observations.values())
        everyone, certificate = propensities(rounds)
        if any(learned is None for _, _, learned in found.values()):
            certificate = 1.0
        thrown = throw((observations[question].context for question in found), rounds)
        coin: Coin = "everyone" if thrown < everyone else "certificate" if thrown < certificate else "nobody"
        paths = {
            question: Path(weights, learned)
            if coin == "nobody" and learned is not None
            else Path(weights, certain, learned)
            for question, (weights, certain, learned) in found.items()
        }
        return Stages(order, coin, (everyone, max(everyone, certificate)), paths)


@lru_cache(maxsize=64)
def _study(  # noqa: PLR0917 - a cache is keyed by position
    evidence: Evidence,
    order: tuple[str, ...],
    shares: tuple[float, ...],
    labels: int,
    stages: int,
    agreement: float,
) -> tuple[tuple[float, ...], Rule, Rule | None]:
    """What the coin's rounds say; they are studied again only when there is new evidence."""
    rows: Counter[Signature] = Counter()
    probes: Counter[Signature] = Counter()
    everyone: Counter[Signature] = Counter()
    for pattern, count in evidence.patterns.items():
        among, along = _read(pattern, order)
        if along is not None:
            rows[along] += count
        if among is not None:
            probes[among] += count
            everyone[among] += count if pattern.everyone else 0
    weights = _weights(probes, +everyone, np.array(shares), labels)
    stopping = Stopping(dict(sorted(rows.items())), weights, np.array(shares))
    majority = int(np.argmax(np.cumsum(weights) > weights.sum() / 2.0)) + 1
    learned = stopping.learned(stages, agreement) if agreement < 1.0 else None
    return tuple(weights.tolist()), stopping.certain(stages, majority), learned


def _weights(
    probes: Mapping[Signature, int], everyone: Mapping[Signature, int], shares: Array, labels: int
) -> Array:
    """ω along the order; of near-copies only the first votes, so that the others need not be asked."""
    rows = np.array(list(probes), dtype=np.int64).reshape(len(probes), len(shares))
    counts = np.maximum(list(probes.values()), 0).astype(np.int64)
    seats = near_copies_in(np.repeat(rows, counts, axis=0), level=0.5)
    first = np.array(sorted(set(seats)))
    seated: dict[Signature, float] = {}
    for groups, weight in completed(probes, everyone).items():
        among = canonical(groups[seat] for seat in first)
        seated[among] = seated.get(among, 0.0) + weight
    weights = np.zeros(len(shares))
    weights[first] = log_odds(accuracies(seated, shares[first], labels))
    return weights


@lru_cache(maxsize=2**14)
def _read(pattern: Pattern, order: tuple[str, ...]) -> tuple[Signature | None, Signature | None]:
    return pattern.among(order), pattern.along(order)


def _of(plan: Plan) -> Stages:
    if not isinstance(plan.stages, Stages):
        raise InvalidParameterError("the plan was made by another policy: it has no stages")
    return plan.stages
