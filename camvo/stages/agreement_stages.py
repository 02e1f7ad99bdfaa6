"""Stages that go on until the label of the full vote is certain, or likely enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from camvo.stages.stages import UNKNOWN, Cast, KeptKind, Sure
from camvo.stages.stopping_rule import StoppingRule, is_certain
from camvo.state.vote_patterns import SILENT, ExplorationRound, Signature, VotePattern, canonical
from camvo.votes.decision import Decision
from camvo.weights.vote_weights import VoteWeights


@dataclass(frozen=True, slots=True)
class AgreementStages:
    """The stages of one question, with a required agreement with the full vote.

    Attributes:
        weights: ω of the arms, in the order of asking, shape (K,).
        rule: the rule that the round follows.
        trial: the learned rule, if exploration overrules it in this round. The round then shows whether the
            learned rule would have been right.
        vote_weights: the source of the weights; ``None`` for a question whose votes are not labels.
        promised: the largest share of labels in which the learned rule was to differ from the full vote.
    """

    weights: tuple[float, ...]
    rule: StoppingRule
    trial: StoppingRule | None = None
    vote_weights: VoteWeights | None = None
    promised: float | None = None

    @property
    def first(self) -> int:
        """How many arms of the order are asked independently of the votes."""
        return self.rule.first

    @property
    def kept(self) -> KeptKind | None:
        """Rounds with a human label; ``None`` for a question whose votes are not labels."""
        return None if self.vote_weights is None else "labelled"

    def upto(self, stage: int, order: Sequence[str], asked: int, votes: Cast) -> int:
        """How many arms of ``order`` to have asked after the next stage; ``asked`` or fewer means stop.

        Args:
            stage: how many stages came before, counted from 0.
            order: all arms, in the order of asking.
            asked: how many arms of ``order`` were asked so far.
            votes: the votes so far.
        """
        return self._follow(self.rule, stage, _signature(order[:asked], votes))

    def decision(
        self, decision: Decision, votes: Cast, labels: Sequence[str], sure: Sure = UNKNOWN
    ) -> Decision:
        """The same label, with the corrected vote's probabilities once there are human labels.

        The decision stays as it is if no arm with a weight of its own has voted.
        """
        if self.vote_weights is None or self.vote_weights.corrected is None:
            return decision
        corrected, agreed = self.vote_weights.corrected, self.vote_weights.agreed
        weighted_votes = {arm: vote for arm, vote in votes.items() if agreed[arm]}
        if not any(weighted_votes.values()):
            return decision
        posterior = corrected.probabilities(weighted_votes, agreed, labels)
        return Decision(decision.label, posterior[decision.label], posterior, corrected.trust / 2.0)

    def exploration_round(self, order: Sequence[str], first: int, votes: Cast) -> ExplorationRound:
        """The round's vote pattern, and whether the learned rule would have given the round's label.

        Args:
            order: all arms, in the order of asking.
            first: how many arms of ``order`` were asked independently of the votes.
            votes: the votes of the arms that were asked.
        """
        everyone = first == len(order)
        pattern = VotePattern.of(sorted(order), votes, everyone=everyone)
        right = self._trial_is_right(order, votes)
        promised = None if right is None else self.promised
        return ExplorationRound(pattern, right, promised, () if everyone else tuple(order[:first]))

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The weights and rules, and the source of the weights, as plain JSON."""
        stages = {
            "weights": list(self.weights),
            "rule": self.rule.describe(),
            "trial": None if self.trial is None else self.trial.describe(),
        }
        return stages, {} if self.vote_weights is None else self.vote_weights.describe()

    def _follow(self, rule: StoppingRule, stage: int, groups: Signature) -> int:
        """How many arms to have asked after the next stage, by a rule and the certainty of the label."""
        if len(groups) == len(self.weights) or is_certain(groups, self.weights):
            return len(groups)
        return max(rule.after(stage, groups, len(self.weights)), len(groups))

    def _trial_is_right(self, order: Sequence[str], votes: Cast) -> bool | None:
        """Whether the learned rule would have given the round's label; true if it would ask no fewer arms."""
        if self.trial is None:
            return None
        asked = sum(arm in votes for arm in order)
        length = self.trial.first
        for stage in range(len(self.trial.moves)):
            if length >= asked:
                break
            upto = self._follow(self.trial, stage, _signature(order[:length], votes))
            if upto == length:
                break
            length = upto
        if length >= asked:
            return True
        early, final = (_leader(_signature(order[:upto], votes), self.weights) for upto in (length, asked))
        return early is not None and early == final


def _signature(arms: Iterable[str], votes: Cast) -> Signature:
    """The groups of arms that were all asked."""
    return canonical(SILENT if (vote := votes[arm]) is None else vote for arm in arms)


def _leader(groups: Signature, weights: tuple[float, ...]) -> int | None:
    """The group with the most weight, the earliest of them if tied; ``None`` if no arm has voted."""
    totals = np.zeros(len(groups) + 1)
    for group, weight in zip(groups, weights, strict=False):
        totals[group] += weight
    return int(totals[:-1].argmax()) if any(group != SILENT for group in groups) else None
