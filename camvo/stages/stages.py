"""The stages of a task: what a plan that asks in stages holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from camvo.numerics.tolerances import TIE
from camvo.stages.cast import UNKNOWN, Cast, Sure, on_question
from camvo.stages.exploration import Exploration
from camvo.stages.question_stages import QuestionStages
from camvo.state.vote_patterns import ExplorationRound, VotePattern
from camvo.student.taught_texts import STUDENT
from camvo.typing import NO_CONFIDENCES, Confidences, Votes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of a task: arms are asked while they add more right labels than they cost.

    With several questions, the gains of one arm on all of them are added up.

    Attributes:
        order: all arms; those of the first stage come first, the others by price.
        exploration: the outcome of the exploration draw; ``"everyone"`` asks all arms whatever they vote.
        propensity: the probability of asking all arms independently of the votes.
        questions: question → its stages.
        count: how many arms the first stage asks.
        prices: arm → its price in right labels, or as a share of the price of all where an agreement is
            required; for all arms but the student.
        left: how many stages are left, the next one included; ``None`` for as many as there are arms.
    """

    order: tuple[str, ...]
    exploration: Exploration
    propensity: float
    questions: Mapping[str, QuestionStages]
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

    def describe(self, question: str) -> dict[str, Any]:
        """One question's part of a plan's description, as plain JSON."""
        stages, beside = self.questions[question].describe()
        common = {
            "order": list(self.order),
            "coin": self.exploration,
            "propensity": self.propensity,
            "first": len(self.first),
            "kept": self.questions[question].kept,
        }
        return {"stages": common | stages} | beside

    def _early_votes(self, question: str, votes: Cast, sure: Sure) -> Cast | None:
        """The votes that are asked for without exploration; ``None`` without a plan or a vote."""
        stages = self.questions[question]
        if stages.fit is None or not any(votes.values()):
            return None
        said = votes.get(STUDENT)
        alone: dict[str, QuestionStages] = {question: stages}
        early: dict[str, dict[str, str]] = {} if said is None else {STUDENT: {question: said}}
        confidences = {arm: {question: confidence} for arm, confidence in sure.items()}
        while arms := next_arms(alone, self.prices, early, confidences):
            for arm in arms:
                vote = votes.get(arm)
                early[arm] = {} if vote is None else {question: vote}
        return {arm: answers.get(question) for arm, answers in early.items()}


def next_arms(
    questions: Mapping[str, QuestionStages],
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
