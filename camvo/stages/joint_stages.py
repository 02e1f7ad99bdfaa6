"""Asking one arm after another while its vote is expected to be worth its price, in the best order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from camvo.joint.joint_fit import JointFit
from camvo.joint.plans.best_plan import best_plan
from camvo.joint.plans.graded_worth import GradedWorth
from camvo.joint.plans.kept_labels import kept_labels
from camvo.joint.plans.worth import Worth
from camvo.numerics.tolerances import TIE
from camvo.stages.stage_worth import plan_by_stages
from camvo.stages.stages import UNKNOWN, Cast, KeptKind, Stages, Sure, on_question
from camvo.state.confidences import SureVote, level_of
from camvo.state.vote_patterns import ExplorationRound, VotePattern
from camvo.student.taught_texts import STUDENT
from camvo.typing import NO_CONFIDENCES, Confidences, Votes
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
class JointQuestion:
    """The stages of one question.

    Attributes:
        labels: the label set.
        fit: what votes say; ``None`` for a question whose votes are not labels, which asks all arms.
        prices: the price of each arm of the fit's shortlist, in right labels.
        silent: the stages for a round in which the student says nothing; ``None`` without a student, or if
            its reply is known.
    """

    labels: tuple[str, ...]
    fit: JointFit | None = None
    prices: tuple[float, ...] = ()
    silent: JointQuestion | None = None

    @property
    def plan(self) -> Worth | GradedWorth | None:
        """The plan of whom to ask; ``None`` if all arms are asked."""
        return None if self.fit is None else best_plan(self.fit, self.prices)

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
        """How many right labels asking each arm adds, before its price, for arms that were not asked.

        Args:
            votes: the votes so far.
            prices: arm → its price in right labels.
            sure: the confidences of these votes.
        """
        if self.silent is not None:
            return self._after_reply(votes, sure).gains(votes, prices, sure)
        if self.fit is None or (plan := self.plan) is None:
            return {arm: np.inf for arm in prices if arm not in votes}
        stopping, asking = plan.at(self.fit.node(votes), self.fit.tilt(votes, sure))
        stopping = max(stopping, 1.0 / len(self.labels))
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
        if isinstance(graded := self.plan, GradedWorth):
            stopping, asking = graded.at(node, self.fit.tilt(votes, sure))
            if max(asking, default=-np.inf) <= stopping + TIE:
                return []
        paid = [prices.get(arm, 0.0) for arm in arms]
        allowed = [place for place, arm in enumerate(arms) if arm in prices and arm not in votes]
        plan = plan_by_stages(self.fit.beliefs, paid, min(left, len(arms)))
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
        if fit is None or fit.sure.grades.arms or fit.shortlist != fit.arms:
            return None
        lost = 1.0 - float(kept_labels(fit.beliefs)[fit.node(votes)])
        return min(_SLACK * lost + _SLACK_AT_LEAST, 1.0)

    def _after_reply(self, votes: Cast, sure: Sure) -> JointQuestion:
        """The stages that count once the student has replied."""
        if self.fit is None or self.silent is None:
            return self
        if votes.get(STUDENT) is None:
            return self.silent
        return JointQuestion(self.labels, self.fit.after_reply(votes, sure), self.prices)

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two parts of a plan's description as plain JSON: entries of ``stages``, and entries beside it."""
        return {}, {} if self.fit is None else {"joint": self.fit.describe()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JointStages(Stages[JointQuestion]):
    """The stages of a task: arms are asked while they add more right labels than they cost.

    With several questions, the gains of one arm on all of them are added up.

    Attributes:
        order: all arms; those of the first stage come first, the others by price.
        exploration: ``"everyone"`` asks all arms whatever they vote.
        propensity: the probability of asking all arms independently of the votes.
        count: how many arms the first stage asks.
        prices: arm → its price in right labels, for all arms but the student.
        left: how many stages are left, the next one included; ``None`` for as many as there are arms.
    """

    count: int
    prices: Mapping[str, float]
    left: int | None = None

    @property
    def first(self) -> tuple[str, ...]:
        """The arms of the first stage, which are asked independently of the votes."""
        return self.order[: self.count]

    def after(self, votes: Votes, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; empty if every question can be decided."""
        if missing := tuple([arm for arm in self.first if arm not in votes]):
            return missing
        return tuple(next_arms(self.questions, self.prices, votes, confidences, left=self.left))

    def exploration_round(self, question: str, votes: Cast, sure: Sure = UNKNOWN) -> ExplorationRound | None:
        """The pattern of the votes, and whether stopping early would have given the same label.

        With two labels the pattern names them, because each arm has an accuracy for each label.
        """
        stages = self.questions[question]
        everyone = self.exploration == "everyone"
        named = tuple(sorted(stages.labels)) if len(stages.labels) == 2 else ()
        pattern = VotePattern.of(sorted(self.order), votes, everyone=everyone, labels=named)
        early = self._early_votes(question, votes, sure) if everyone else None
        if early is None:
            return ExplorationRound(pattern, None)
        right = stages.leader(early, sure) == stages.leader(votes, sure)
        return ExplorationRound(pattern, right, stages.promised(early, sure))

    def _early_votes(self, question: str, votes: Cast, sure: Sure) -> Cast | None:
        """The votes that are asked for without exploration; ``None`` without a plan or a vote."""
        stages = self.questions[question]
        if stages.fit is None or not any(votes.values()):
            return None
        said = votes.get(STUDENT)
        alone: dict[str, JointQuestion] = {question: stages}
        early: dict[str, dict[str, str]] = {} if said is None else {STUDENT: {question: said}}
        confidences = {arm: {question: confidence} for arm, confidence in sure.items()}
        while arms := next_arms(alone, self.prices, early, confidences):
            for arm in arms:
                vote = votes.get(arm)
                early[arm] = {} if vote is None else {question: vote}
        return {arm: answers.get(question) for arm, answers in early.items()}


def next_arms(
    questions: Mapping[str, JointQuestion],
    prices: Mapping[str, float],
    votes: Votes,
    confidences: Confidences = NO_CONFIDENCES,
    *,
    left: int | None = None,
) -> list[str]:
    """The arms to ask now; empty if no arm adds more right labels than it costs.

    Args:
        questions: question → its stages.
        prices: arm → its price in right labels.
        votes: the votes so far.
        confidences: their confidences.
        left: how many stages are left; ``None`` for as many as there are arms.
    """
    casts = {name: {arm: answers.get(name) for arm, answers in votes.items()} for name in questions}
    sure = {name: on_question(confidences, name) for name in questions}
    if left is not None and any(any(cast.values()) for cast in casts.values()) and left <= 0:
        return []
    if left is not None:
        together = {
            arm
            for name, question in questions.items()
            for arm in question.within(casts[name], prices, max(left, 1), sure[name])
        }
        if together or any(any(cast.values()) for cast in casts.values()):
            return [arm for arm in prices if arm in together]
    elif len(questions) == 1:
        ((name, only),) = questions.items()
        wanted = only.together(casts[name], sure[name])
        if wanted and not any(arm in votes for arm in wanted):
            return wanted
    total = dict.fromkeys([arm for arm in prices if arm not in votes], 0.0)
    for name, question in questions.items():
        for arm, gain in question.gains(casts[name], prices, sure[name]).items():
            total[arm] += max(gain, 0.0)
    worthwhile = {arm: gain - prices[arm] for arm, gain in total.items() if gain > prices[arm] + TIE}
    if worthwhile:
        best = max(worthwhile, key=lambda arm: (worthwhile[arm], arm))
        return [best] if np.isfinite(worthwhile[best]) else sorted(worthwhile)
    undecided = any(not any(cast.values()) for cast in casts.values())
    return [min(total, key=lambda arm: (prices[arm], arm))] if undecided and total else []
