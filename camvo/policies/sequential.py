"""Sequential voting: ask in stages; stop when the rest cannot, or probably will not, change the vote.

The target is the full vote: the label of the weighted vote of all models. Arms with the most weight per price
are asked first. Weights and stopping rules are learnt from the agreement between models in exploration
rounds. Human labels refine the weights (``docs/sequential.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import MOST_ROUNDS, Fit, WeightsFitData
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.staged import Staged
from camvo.stages.agreement_stages import AgreementStages
from camvo.stages.asking_order import cheapest_first, most_weight_per_price
from camvo.stages.exploration import propensities
from camvo.stages.ordered_stages import OrderedStages
from camvo.stages.stopping import StoppingProblem
from camvo.stages.stopping_rule import StoppingRule, is_complete
from camvo.state.vote_patterns import PatternCounts, Signature, VotePattern
from camvo.student.taught_texts import STUDENT
from camvo.typing import Array
from camvo.votes.labels import LABEL_VOTE
from camvo.weights.corrected_vote import CorrectedVote
from camvo.weights.one_coin import LEAST_WEIGHT
from camvo.weights.vote_weights import VoteWeights, weights_are_settled, weights_by_agreement


@dataclass(frozen=True, kw_only=True)
class Sequential(Staged):
    """Ask in stages, and stop when the label of the full vote is certain or likely enough.

    Attributes:
        agreement: the smallest share of labels that must equal the full vote, in [0, 1]. With 1 the policy
            stops only when the label is certain.
        max_stages: the largest number of stages. 1 asks one set; K can ask the models one after another.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Sequential()
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> for _ in range(60):
    ...     task = question.task([1.0, 0.0])
    ...     while models := task.ask():
    ...         task.add(dict.fromkeys(models, "pos"))
    ...     task.learn()
    >>> question.task([1.0, 0.0]).ask()
    ('small',)
    """

    _kind = OrderedStages

    max_stages: int = 3
    agreement: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_stages < 1:
            raise InvalidParameterError(f"max_stages must be at least 1, got {self.max_stages}")
        if not 0.0 <= self.agreement <= 1.0:
            raise InvalidParameterError(f"agreement must be in [0, 1], got {self.agreement}")

    def stages_of(self, costs: Mapping[str, float]) -> int:
        """The largest number of stages with these arms. The student answers at once, so it adds one."""
        return self.max_stages + (STUDENT in costs)

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> WeightsFitData | None:
        """The rounds and weights for a fit to human labels; ``None`` before the first human label."""
        if observation.aggregation != LABEL_VOTE:
            return None
        latest = observation.state.kept_rounds.latest(MOST_ROUNDS)
        if not latest.labelled:
            return None
        evidence = observation.state.exploration.evidence
        by_agreement = _weights_by_agreement(evidence, len(observation.labels), tuple(costs.items()))
        weights = tuple([(arm, float(f"{weight:.2g}")) for arm, weight in by_agreement.items()])
        return WeightsFitData(latest, observation.labels, weights)

    def _staged(
        self, plan: Plan, observations: Mapping[str, Observation], costs: Mapping[str, float], draw: float
    ) -> tuple[OrderedStages, Mapping[str, Array]]:
        inputs = tuple(
            [
                _QuestionInputs(
                    question,
                    observation.state.exploration.evidence,
                    observation.state.exploration.stop_evidence,
                    observation.labels,
                    observation.aggregation == LABEL_VOTE,
                    self._fit(observation, costs),
                )
                for question, observation in sorted(observations.items())
            ]
        )
        order, questions, settled = _order_and_stages(self, tuple(costs.items()), inputs)
        states = [observation.state for observation in observations.values()]
        rounds = min(state.rounds - state.restarted_at for state in states) + self.waiting.rounds
        everyone, certificate = _propensities(rounds, questions.values(), settled=settled)
        drawn = self._explore(draw, everyone, certificate)
        exploration, (everyone, certificate) = drawn.exploration, drawn.rates
        if exploration == "nobody":
            questions = {
                name: question
                if question.trial is None
                else replace(question, rule=question.trial, trial=None)
                for name, question in questions.items()
            }
        stages = OrderedStages(
            order=order,
            exploration=exploration,
            propensity=(everyone, certificate),
            questions=questions,
            moves=self.stages_of(costs) - 1,
        )
        positions = [order.index(arm) for arm in plan.arms]
        weights = {
            name: np.array(question.weights)[positions]
            for name, question in questions.items()
            if question.vote_weights is not None
        }
        return stages, {**plan.weights, **weights}


class _QuestionInputs(NamedTuple):
    """The inputs of one question's stages, as a cache key. Evidence and fit are hashed by identity."""

    question: str
    evidence: PatternCounts
    stop_evidence: PatternCounts
    labels: tuple[str, ...]
    is_label_vote: bool
    fit: Fit | None


@lru_cache(maxsize=64)
def _order_and_stages(
    policy: Sequential, costs: tuple[tuple[str, float], ...], inputs: tuple[_QuestionInputs, ...]
) -> tuple[tuple[str, ...], Mapping[str, AgreementStages], bool]:
    """The order of asking, each question's stages, and whether the weights of all questions are settled.

    The stages follow the certain rule, with the learned one as trial.
    """
    vote_weights = {
        question.question: VoteWeights(
            _weights_by_agreement(question.evidence, len(question.labels), costs), _corrected(question.fit)
        )
        for question in inputs
        if question.is_label_vote
    }
    weights = {question: source.by_arm() for question, source in vote_weights.items()}
    order, shares = most_weight_per_price(dict(costs), weights.values())
    questions, stages = {}, policy.stages_of(dict(costs))
    for name, _, evidence, _, is_label_vote, _ in inputs:
        if not is_label_vote:
            ask_all = StoppingRule(len(order), ({},) * (stages - 1), certain=True)
            questions[name] = AgreementStages((1.0,) * len(order), ask_all)
            continue
        in_order = tuple(weights[name][arm] for arm in order)
        certain, learned = _rules(evidence, order, shares, in_order, stages, policy.agreement)
        questions[name] = AgreementStages(
            in_order, certain, learned, vote_weights[name], 1.0 - policy.agreement
        )
    by_price = cheapest_first({arm: cost for arm, cost in costs if arm != STUDENT})
    settled = [
        weights_are_settled(question.evidence, *by_price, len(question.labels))
        for question in inputs
        if question.is_label_vote
    ]
    return order, questions, all(settled)


def _propensities(rounds: int, questions: Iterable[AgreementStages], *, settled: bool) -> tuple[float, float]:
    """The probabilities of asking all arms, and of asking at least until the label is certain.

    All arms are asked until the weights are settled. The label has to be certain while a question has no
    learned rule.
    """
    everyone, certificate = propensities(rounds)
    if any(question.trial is None for question in questions):
        certificate = 1.0
    if not settled:
        everyone = 1.0
    return everyone, max(everyone, certificate)


def _corrected(fit: Fit | None) -> CorrectedVote | None:
    return None if fit is None or fit.corrected is None or not fit.corrected.arms else fit.corrected


@lru_cache(maxsize=64)
def _weights_by_agreement(
    evidence: PatternCounts, labels: int, costs: tuple[tuple[str, float], ...]
) -> Mapping[str, float]:
    """Arm → ω, from the agreement with the other arms alone, the cheapest arm first.

    The student only breaks ties: the others taught it, so its agreement with them is no evidence, and the
    vote of all models is theirs. It still counts in the patterns that teach when to stop.
    """
    order, shares = cheapest_first({arm: cost for arm, cost in costs if arm != STUDENT})
    weights = dict(zip(order, weights_by_agreement(evidence, order, shares, labels), strict=True))
    return weights if len(order) == len(costs) else weights | {STUDENT: LEAST_WEIGHT}


@lru_cache(maxsize=64)
def _rules(  # noqa: PLR0917 - a cache is keyed by position
    evidence: PatternCounts,
    order: tuple[str, ...],
    shares: tuple[float, ...],
    weights: tuple[float, ...],
    stages: int,
    agreement: float,
) -> tuple[StoppingRule, StoppingRule | None]:
    """The certain rule and, if the evidence suffices, the learned one.

    A round that ended early counts only if its label is certain at these weights too.
    """
    patterns: Counter[Signature] = Counter()
    for pattern, count in evidence.patterns.items():
        groups = _groups_along(pattern, order)
        if groups is not None and is_complete(groups, weights):
            patterns[groups] += count
    omega = np.array(weights)
    problem = StoppingProblem(dict(sorted(patterns.items())), omega, np.array(shares))
    majority = int(np.argmax(np.cumsum(omega) > omega.sum() / 2.0)) + 1
    learned = problem.learned_rule(stages, agreement) if agreement < 1.0 else None
    return problem.certain_rule(stages, majority), learned


@lru_cache(maxsize=2**14)
def _groups_along(pattern: VotePattern, order: tuple[str, ...]) -> Signature | None:
    return pattern.along(order)
