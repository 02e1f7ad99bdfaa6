"""The stages of one question of a task: whom to ask now, when to stop, and what the votes say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from camvo.joint.joint_fit import JointFit
from camvo.joint.plans.agreement import AgreementStops
from camvo.joint.plans.best_plan import best_plan
from camvo.joint.plans.graded_worth import GradedWorth
from camvo.joint.plans.kept_labels import kept_labels
from camvo.joint.plans.worth import RIGHT_LABELS, Worth, plan_by_worth
from camvo.numerics.tolerances import TIE
from camvo.stages.cast import UNKNOWN, Cast, KeptKind, Sure
from camvo.stages.stage_worth import plan_by_stages
from camvo.state.confidences import SureVote, level_of
from camvo.student.taught_texts import STUDENT
from camvo.votes.decision import Decision

_TRUSTED_LABELS = 50.0
"""The number of human labels at which a decision's own score counts for a quarter; it never counts for more
than half by labels."""

_SLACK, _SLACK_AT_LEAST = 1.5, 0.01
"""A promise is the plan's own estimate, half as much again, and one in a hundred more.

The estimate is about right on average. It is of a plan that was chosen by the same estimates, and a model
that was fitted to few rounds misses rare patterns.
"""


@dataclass(frozen=True, slots=True)
class QuestionStages:
    """The stages of one question.

    Attributes:
        labels: the label set.
        fit: what votes say; ``None`` for a question whose votes are not labels, which asks all arms.
        prices: the price of each arm of the fit's shortlist, in right labels; with ``stops``, as a share of
            the price of all arms.
        silent: the stages for a round in which the student says nothing; ``None`` without a student, or if
            its reply is known.
        stops: when to stop for the label of all votes; ``None`` to stop for right labels at their price.
    """

    labels: tuple[str, ...]
    fit: JointFit | None = None
    prices: tuple[float, ...] = ()
    silent: QuestionStages | None = None
    stops: AgreementStops | None = None

    @property
    def plan(self) -> Worth | GradedWorth | None:
        """The plan of whom to ask; ``None`` if all arms are asked."""
        if self.fit is None:
            return None
        if self.stops is not None:
            return plan_by_worth(self.fit.beliefs, self.prices, self.stops)
        return best_plan(self.fit, self.prices)

    @property
    def kept(self) -> KeptKind | None:
        """Rounds with a human label; ``None`` for a question whose votes are not labels."""
        return None if self.fit is None else "labelled"

    def decision(
        self, decision: Decision, votes: Cast, labels: Sequence[str], sure: Sure = UNKNOWN
    ) -> Decision:
        """The most probable label, or the weighted vote's label if it is as probable."""
        if self.fit is None:
            return decision
        if self.silent is not None:
            return self._after_reply(votes, sure).decision(decision, votes, labels, sure)
        posterior = self.fit.probabilities(votes, sure)
        leader = max(posterior, key=lambda label: posterior[label])
        label = decision.label if posterior[decision.label] > posterior[leader] - TIE else leader
        count = 0 if self.fit.human is None else self.fit.human.count
        by_labels = count / (count + _TRUSTED_LABELS) / 2.0
        by_context = self.fit.told_by_context(votes, sure, label, posterior[label])
        return Decision(label, posterior[label], posterior, max(by_labels, by_context))

    def compared(self, votes: Cast, sure: Sure) -> tuple[SureVote, ...]:
        """Compare each vote that has a confidence with the label that the other arms' votes make probable.

        A vote is left out if none of the others voted, or if two labels are equally probable by them.
        """
        if self.fit is None:
            return ()
        if self.silent is not None and self.silent.fit is not None:
            # The student was taught by the others, so it is no witness for them.
            without = {arm: label for arm, label in votes.items() if arm != STUDENT}
            return (
                *self.silent.compared(without, {arm: sure[arm] for arm in sure if arm != STUDENT}),
                *self._compared([STUDENT] if STUDENT in sure else [], votes, sure, self.silent.fit),
            )
        return self._compared(sorted(sure), votes, sure, self.fit)

    @staticmethod
    def _compared(arms: Sequence[str], votes: Cast, sure: Sure, fit: JointFit) -> tuple[SureVote, ...]:
        compared = []
        for arm in arms:
            others = {other: label for other, label in votes.items() if other != arm and label is not None}
            if (vote := votes.get(arm)) is None or not others:
                continue
            first, second = sorted(fit.probabilities(others).items(), key=lambda item: -item[1])[:2]
            if first[1] > second[1] + TIE:
                compared.append(SureVote(arm, vote, level_of(sure[arm]), vote == first[0]))
        return tuple(compared)

    def gains(self, votes: Cast, prices: Mapping[str, float], sure: Sure = UNKNOWN) -> dict[str, float]:
        """What asking each arm adds, before its price, in the unit of prices, for arms that were not asked.

        Args:
            votes: the votes so far.
            prices: arm → its price in right labels, or with ``stops`` as a share of the price of all.
            sure: the confidences of these votes.
        """
        if self.silent is not None:
            return self._after_reply(votes, sure).gains(votes, prices, sure)
        if self.fit is None or (plan := self.plan) is None:
            return {arm: np.inf for arm in prices if arm not in votes}
        node = self.fit.node(votes)
        if self._finishes(node, votes):
            return {arm: np.inf for arm in prices if arm not in votes}
        stopping, asking = plan.at(node, self.fit.tilt(votes, sure))
        stopping = max(stopping, 1.0 / len(self.labels) if self.stops is None else self.stops.nothing)
        return {
            arm: value - stopping + prices[arm]
            for arm, value in zip(self.fit.shortlist, asking, strict=True)
            if arm not in votes
        }

    def together(self, votes: Cast, sure: Sure = UNKNOWN) -> list[str]:
        """The arms to ask now by the question's own plan, the best one first; empty to stop."""
        if self.silent is not None:
            return self._after_reply(votes, sure).together(votes, sure)
        if self.fit is None or (plan := self.plan) is None:
            return []
        node, tilt = self.fit.node(votes), self.fit.tilt(votes, sure)
        if self._finishes(node, votes):
            return [arm for arm in self.fit.arms if arm not in votes]
        return [self.fit.shortlist[arm] for arm in plan.together(node, tilt)]

    def within(self, votes: Cast, prices: Mapping[str, float], left: int, sure: Sure = UNKNOWN) -> list[str]:
        """The arms to ask now if so many stages are left; empty to stop.

        Args:
            votes: the votes so far.
            prices: arm → its price in right labels.
            left: the stages left, the next one included; at least 1.
            sure: the confidences of the votes.
        """
        if self.silent is not None:
            return self._after_reply(votes, sure).within(votes, prices, left, sure)
        if self.fit is None:
            return [arm for arm in prices if arm not in votes]
        node, arms = self.fit.node(votes), self.fit.shortlist
        if self._finishes(node, votes):
            return [arm for arm in prices if arm not in votes]
        if isinstance(graded := self.plan, GradedWorth):
            stopping, asking = graded.at(node, self.fit.tilt(votes, sure))
            if max(asking, default=-np.inf) <= stopping + TIE:
                return []
        paid = [prices.get(arm, 0.0) for arm in arms]
        allowed = [place for place, arm in enumerate(arms) if arm in prices and arm not in votes]
        plan = plan_by_stages(self.fit.beliefs, paid, min(left, len(arms)), self.stops or RIGHT_LABELS)
        return [arms[place] for place in plan.together(node, allowed)]

    def leader(self, votes: Cast, sure: Sure) -> str | None:
        """The most probable label; ``None`` for a question whose votes are not labels."""
        if self.silent is not None:
            return self._after_reply(votes, sure).leader(votes, sure)
        if self.fit is None:
            return None
        posterior = self.fit.probabilities(votes, sure)
        return max(posterior, key=lambda label: posterior[label])

    def promised(self, votes: Cast, sure: Sure = UNKNOWN) -> float | None:
        """The largest probability, by the plan, that the votes of all arms give another label than these.

        ``None`` if the plan promises nothing: it does not know all arms, or the models' confidences move its
        beliefs. The student's does not count among these: it is known before any model is asked.
        """
        if self.silent is not None:
            return self._after_reply(votes, sure).promised(votes)
        fit = self.fit
        if self.stops is not None:
            return self.stops.promised
        if fit is None or fit.sure.grades.arms or fit.shortlist != fit.arms:
            return None
        lost = 1.0 - float(kept_labels(fit.beliefs)[fit.node(votes)])
        return min(_SLACK * lost + _SLACK_AT_LEAST, 1.0)

    def _finishes(self, node: int, votes: Cast) -> bool:
        """Whether all arms that are left are asked now, also those outside the shortlist."""
        plan = self.plan
        if self.fit is None or self.stops is None or not isinstance(plan, Worth):
            return False
        return plan.finishes(node, [at for at, arm in enumerate(self.fit.shortlist) if arm not in votes])

    def _after_reply(self, votes: Cast, sure: Sure) -> QuestionStages:
        """The stages that count once the student has replied."""
        if self.fit is None or self.silent is None:
            return self
        if votes.get(STUDENT) is None:
            return self.silent
        return QuestionStages(self.labels, self.fit.after_reply(votes, sure), self.prices)

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two parts of a plan's description as plain JSON: entries of ``stages``, and entries beside it."""
        if self.fit is None:
            return {}, {}
        stops = {} if self.stops is None else {"agreement": self.stops.describe()}
        return stops, {"joint": self.fit.describe()}
