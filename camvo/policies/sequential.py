"""Sequential voting: everybody's label, for the price of those whose votes can still change it.

The target is the weighted vote of all models. They are asked in stages, those first that weigh most for their
price, until the leader is certain to win or, in the light of past rounds, likely enough to. What votes weigh
is learnt from who agrees with whom and from human labels: see ``docs/sequential.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import MOST_ROWS, WeightsMaterial
from camvo.policies.ensemble import Ensemble
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.stages.asking_order import cheapest_first, most_weight_per_price
from camvo.stages.rule import Rule, is_complete
from camvo.stages.stages import Coin, Path, Stages, propensities, throw
from camvo.stages.stopping import Stopping
from camvo.state.contribution import Contribution
from camvo.state.kept_rounds import Row
from camvo.state.vote_patterns import Evidence, Pattern, Signature
from camvo.typing import Votes
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE
from camvo.weights.stacking import StackedVote
from camvo.weights.vote_weights import VoteWeights, weights_by_agreement


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

    def material(self, seen: Observation, costs: Mapping[str, float]) -> WeightsMaterial | None:
        """The rounds that humans have labelled, as soon as there are any."""
        head = seen.state.rows.head(MOST_ROWS)
        if seen.aggregation != LABEL_VOTE or all(row.label is None for row in head.rows):
            return None
        weights = {arm: float(f"{weight:.2g}") for arm, weight in _by_agreement(seen, costs).items()}
        return WeightsMaterial(head, seen.labels, tuple(weights.items()))

    def plan_window(
        self, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
    ) -> list[Plan]:
        """Freeze weights, order and rules, and throw the coins; nobody has voted yet."""
        plans = super().plan_window(tasks, costs)
        known: dict[tuple[object, ...], tuple[tuple[str, ...], dict[str, Path]]] = {}
        staged = []
        for plan, task in zip(plans, tasks, strict=True):
            # Of what tasks of one state differ in, the contexts decide how the coin falls, and nothing else.
            kind = tuple(
                [(seen.labels, seen.aggregation == LABEL_VOTE, id(seen.study)) for seen in task.values()]
            )
            if kind not in known:
                known[kind] = self._paths(task, costs)
            staged.append(_staged(plan, task, *known[kind]))
        return staged

    def _paths(
        self, observations: Mapping[str, Observation], costs: Mapping[str, float]
    ) -> tuple[tuple[str, ...], dict[str, Path]]:
        """In which order arms are asked, and each question's path before the coin."""
        voted = {
            question: self._votes(seen, costs)
            for question, seen in sorted(observations.items())
            if seen.aggregation == LABEL_VOTE
        }
        weights = {question: origin.by_arm() for question, origin in voted.items()}
        order, shares = most_weight_per_price(costs, weights.values())
        paths = {}
        for question, seen in sorted(observations.items()):
            if question not in voted:
                everyone = Rule(len(order), ({},) * (self.max_stages - 1), certain=True)
                paths[question] = Path((1.0,) * len(order), everyone)
                continue
            along = tuple(weights[question][arm] for arm in order)
            evidence = seen.state.probes.evidence
            rules = _rules(evidence, order, shares, along, self.max_stages, self.agreement)
            paths[question] = Path(along, *rules, voted[question])
        return order, paths

    def _votes(self, seen: Observation, costs: Mapping[str, float]) -> VoteWeights:
        """What the arms' votes on one question weigh."""
        stack = seen.study if isinstance(seen.study, StackedVote) else None
        if stack is None and (material := self.material(seen, costs)) is not None:
            stack = material.study()
        return VoteWeights(_by_agreement(seen, costs), stack if stack and stack.arms else None)

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The next stage; nobody where every question is decided."""
        return _of(plan).ask(votes)

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The weighted vote, with the probabilities that human labels give to it as soon as there are any."""
        decisions = super().decide(plan, votes)
        for question, path in _of(plan).paths.items():
            if question not in decisions or path.origin is None or path.origin.stack is None:
                continue
            stack, agreed, label = path.origin.stack, path.origin.agreed, decisions[question].label
            cast = {arm: answers.get(question) for arm, answers in votes.items() if agreed[arm]}
            if not any(cast.values()):
                continue
            chances = stack.probabilities(cast, agreed, plan.estimates[question].labels)
            decisions[question] = Decision(label, chances[label], chances, stack.trust)
        return decisions

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """Rewards of the arms that were not asked because of the votes, and what a coin's round shows."""
        stages = _of(plan)
        taught = super().contribution(plan, question, votes, label, human=human)
        if plan.estimates[question].aggregation != LABEL_VOTE:
            return taught
        cast = {arm: answers.get(question) for arm, answers in votes.items()}
        weights = dict(zip(plan.arms, plan.estimates[question].agreement.tolist(), strict=True))
        kept = Row.of(cast, weights, label if human else None, everyone=False)
        return replace(taught, probe=stages.probe(question, votes), kept=kept)


def _staged(
    plan: Plan, observations: Mapping[str, Observation], order: tuple[str, ...], paths: Mapping[str, Path]
) -> Plan:
    """The plan with the stages that the coin leaves, and with the weights of votes that are weighed."""
    at = [order.index(arm) for arm in plan.arms]
    weights = {
        question: np.array(path.weights)[at] for question, path in paths.items() if path.origin is not None
    }
    stages = _thrown(observations, order, paths)
    return plan.staged(stages, {**plan.weights, **weights}, stages.propensity[0])


def _thrown(
    observations: Mapping[str, Observation], order: tuple[str, ...], paths: Mapping[str, Path]
) -> Stages:
    """The stages after the coin; paths come with the rule that is certain, and the learned one as trial."""
    rounds = min(seen.state.rounds for seen in observations.values())
    everyone, certificate = propensities(rounds)
    if any(path.trial is None for path in paths.values()):
        certificate = 1.0
    thrown = throw((observations[question].context for question in paths), rounds)
    coin: Coin = "everyone" if thrown < everyone else "certificate" if thrown < certificate else "nobody"
    if coin == "nobody":
        paths = {
            question: path if path.trial is None else replace(path, rule=path.trial, trial=None)
            for question, path in paths.items()
        }
    return Stages(order, coin, (everyone, max(everyone, certificate)), paths)


def _by_agreement(seen: Observation, costs: Mapping[str, float]) -> dict[str, float]:
    order, shares = cheapest_first(costs)
    weights = weights_by_agreement(seen.state.probes.evidence, order, shares, len(seen.labels))
    return dict(zip(order, weights, strict=True))


@lru_cache(maxsize=64)
def _rules(  # noqa: PLR0917 - a cache is keyed by position
    evidence: Evidence,
    order: tuple[str, ...],
    shares: tuple[float, ...],
    weights: tuple[float, ...],
    stages: int,
    agreement: float,
) -> tuple[Rule, Rule | None]:
    """The rule that is certain and, where the evidence is enough, the learned one.

    A round that ended because it was certain at other weights, and is not at these, shows nothing any more.
    """
    rows: Counter[Signature] = Counter()
    for pattern, count in evidence.patterns.items():
        along = _along(pattern, order)
        if along is not None and is_complete(along, weights):
            rows[along] += count
    votes = np.array(weights)
    stopping = Stopping(dict(sorted(rows.items())), votes, np.array(shares))
    majority = int(np.argmax(np.cumsum(votes) > votes.sum() / 2.0)) + 1
    learned = stopping.learned(stages, agreement) if agreement < 1.0 else None
    return stopping.certain(stages, majority), learned


@lru_cache(maxsize=2**14)
def _along(pattern: Pattern, order: tuple[str, ...]) -> Signature | None:
    return pattern.along(order)


def _of(plan: Plan) -> Stages:
    if not isinstance(plan.stages, Stages):
        raise InvalidParameterError("the plan was made by another policy: it has no stages")
    return plan.stages
