"""One question that is asked until the label of all models together is certain, or likely enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from camvo.stages.rule import Rule, is_certain
from camvo.stages.stages import Cast, KeptKind
from camvo.state.vote_patterns import SILENT, ExplorationRound, Signature, VotePattern, canonical
from camvo.votes.decision import Decision
from camvo.weights.vote_weights import VoteWeights


@dataclass(frozen=True, slots=True)
class AgreementStages:
    """How one question is asked about under an agreement with the vote of all models.

    Attributes:
        weights: ω of the arms, in the order of asking.
        rule: what the round follows.
        trial: the learned stop, if exploration overruled it: what it would have done is compared.
        vote_weights: where the weights come from; ``None`` if the votes are not weighed.
    """

    weights: tuple[float, ...]
    rule: Rule
    trial: Rule | None = None
    vote_weights: VoteWeights | None = None

    @property
    def first(self) -> int:
        """How many arms of the order are asked independently of the votes."""
        return self.rule.first

    @property
    def kept(self) -> KeptKind | None:
        """Rounds that a human labels, if the votes are weighed."""
        return None if self.vote_weights is None else "labelled"

    def upto(self, stage: int, order: Sequence[str], asked: int, votes: Cast) -> int:
        """How many arms of ``order`` are to be asked in all; ``asked`` means stop."""
        return self._follow(self.rule, stage, _signature(order[:asked], votes))

    def decision(self, decision: Decision, votes: Cast, labels: Sequence[str]) -> Decision:
        """The same label, with the probabilities that human labels give to it if there are any."""
        if self.vote_weights is None or self.vote_weights.stack is None:
            return decision
        stack, agreed = self.vote_weights.stack, self.vote_weights.agreed
        weighed = {arm: vote for arm, vote in votes.items() if agreed[arm]}
        if not any(weighed.values()):
            return decision
        chances = stack.probabilities(weighed, agreed, labels)
        return Decision(decision.label, chances[decision.label], chances, stack.trust)

    def exploration_round(self, order: Sequence[str], first: int, votes: Cast) -> ExplorationRound | None:
        """The round's vote pattern, and whether the learned stop would have named the round's label."""
        pattern = VotePattern.of(sorted(order), votes, everyone=first == len(order))
        return ExplorationRound(pattern, self._trial_is_right(order, votes))

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Plain JSON: weights and rules, and beside them what human labels say."""
        stages = {
            "weights": list(self.weights),
            "rule": self.rule.describe(),
            "trial": None if self.trial is None else self.trial.describe(),
        }
        return stages, {} if self.vote_weights is None else self.vote_weights.describe()

    def _follow(self, rule: Rule, stage: int, groups: Signature) -> int:
        if len(groups) == len(self.weights) or is_certain(groups, self.weights):
            return len(groups)
        return max(rule.after(stage, groups, len(self.weights)), len(groups))

    def _trial_is_right(self, order: Sequence[str], votes: Cast) -> bool | None:
        """Whether the learned stop would have named the round's label; true if it would ask more arms."""
        if self.trial is None:
            return None
        asked = sum(arm in votes for arm in order)
        length = self.trial.first
        for stage in range(len(self.trial.moves)):
            if length >= asked:
                return True
            upto = self._follow(self.trial, stage, _signature(order[:length], votes))
            if upto == length:
                break
            length = upto
        if length >= asked:
            return True
        early, final = (_leader(_signature(order[:upto], votes), self.weights) for upto in (length, asked))
        return early is not None and early == final


def _signature(arms: Iterable[str], votes: Cast) -> Signature:
    return canonical(SILENT if (vote := votes[arm]) is None else vote for arm in arms)


def _leader(groups: Signature, weights: tuple[float, ...]) -> int | None:
    """The group with the largest weight; the group of the earlier arms if tied; ``None`` without a vote."""
    totals = np.zeros(len(groups) + 1)
    for group, weight in zip(groups, weights, strict=False):
        totals[group] += weight
    return int(totals[:-1].argmax()) if any(group != SILENT for group in groups) else None
