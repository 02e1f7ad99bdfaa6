"""The stages of a task: the content of a plan that asks in stages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.joint.agreement import AgreementStops, kept_labels
from camvo.joint.beliefs import Beliefs
from camvo.joint.joint_fit import JointFit, best_plan
from camvo.joint.ordered_fit import OrderedFit
from camvo.joint.plans import (
    NEVER,
    RIGHT_LABELS,
    GradedWorth,
    Stops,
    Worth,
    plan_by_worth,
    prices_without,
    rounded,
)
from camvo.numerics.small import TIE
from camvo.stages.span_stages import SpanStages
from camvo.state.contribution import SureVote, level_of
from camvo.state.exploration import ExplorationRound, VotePattern, named_labels
from camvo.student import STUDENT
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Decision


def cheapest_first(costs: Mapping[str, float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The arms, the cheapest first, and each arm's share of the price of all, in the same order.

    Shares are rounded to two digits, so that a task of a few more words is planned in the same way.
    """
    order = tuple(sorted(costs, key=lambda arm: (costs[arm], arm)))
    total = sum(costs[arm] for arm in order)
    shares = (float(f"{costs[arm] / total:.2g}") if total > 0.0 else 1.0 / len(order) for arm in order)
    return order, tuple(shares)


Cast: TypeAlias = Mapping[str, str | None]
"""Votes on one question: arm → label, ``None`` if it gave no vote. Arms that were not asked are absent."""

Sure: TypeAlias = Mapping[str, float]
"""Confidences on one question: arm → confidence in [0, 1]. Arms that gave none are absent."""

UNKNOWN: Final[Sure] = MappingProxyType({})
"""The confidences on one question if no arm gave one."""


def on_question(confidences: Confidences, question: str) -> Sure:
    """The confidences of the arms' votes on one question."""
    return {arm: answers[question] for arm, answers in confidences.items() if question in answers}


Exploration: TypeAlias = Literal["everyone", "nobody"]
"""The outcome of the exploration draw: ``"everyone"`` asks all arms, and ``"nobody"`` follows the plan."""


def uniform_draw(tasks: Iterable[Array | str], rounds: int) -> float:
    """A number in [0, 1) derived from the task and the number of earlier rounds, never from votes.

    The same ledger gives the same draw in every process. For each question, the task's name or its embedding,
    shape (d,), identifies it.
    """
    digest = hashlib.blake2b(rounds.to_bytes(8, "little"), digest_size=8)
    for task in tasks:
        if isinstance(task, str):
            digest.update(task.encode())
        else:
            digest.update(np.ascontiguousarray(task, dtype="<f8").tobytes())
    return int.from_bytes(digest.digest(), "little") / 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class _ArmStep:
    """Asking one arm at all nodes at which it has not voted.

    Attributes:
        nodes: the nodes, shape (n,).
        following: the node after each vote, shape (G, n).
        votes: the probability of each vote, shape (G, n), 0 if impossible.
    """

    nodes: NDArray[np.int64]
    following: NDArray[np.int64]
    votes: Array

    def expected(self, value: Array) -> Array:
        """The expected value after the vote, shape (N,); :data:`NEVER` where the arm has voted."""
        expected = np.full(len(value), NEVER)
        expected[self.nodes] = (self.votes * value[self.following]).sum(axis=0)
        return expected


@dataclass(frozen=True, slots=True, eq=False)
class _StageWorth:
    """The best plan in stages for one list of prices."""

    steps: tuple[_ArmStep, ...]
    prices: tuple[float, ...]
    stopping: Array
    later: Array
    value: Array
    sets: tuple[tuple[int, ...], ...]
    choice: NDArray[np.int64]

    def together(self, node: int, allowed: Sequence[int]) -> tuple[int, ...]:
        """The arms to ask now at a node; empty to stop."""
        choice = int(self.choice[node])
        if choice < 0 or set(self.sets[choice]) <= set(allowed):
            return () if choice < 0 else self.sets[choice]
        best: tuple[int, ...] = ()
        stopping = float(self.stopping[node])
        for arms, values in _values_by_set(self.steps, self.prices, self.later, allowed):
            if values[node] > stopping + TIE:
                stopping, best = float(values[node]), arms
        return best


def _plan_by_stages(
    beliefs: Beliefs, prices: Sequence[float], stages: int, stops: Stops = RIGHT_LABELS
) -> _StageWorth:
    """The best plan for a number of stages, the next one included; rounded prices share plans."""
    return _plan(beliefs, rounded(tuple(prices)), stages, stops)


@lru_cache(maxsize=64)
def _plan(beliefs: Beliefs, prices: tuple[float, ...], stages: int, stops: Stops) -> _StageWorth:
    voted = (beliefs.lattice.rows >= 0).any(axis=1)
    stopping = np.where(voted, stops.stopping(beliefs), NEVER)
    later = stopping if stages == 1 else _plan(beliefs, prices, stages - 1, stops).value
    steps, value = _arm_steps(beliefs), stopping.copy()
    choice = np.full(len(value), -1, dtype=np.int64)
    by_set = _values_by_set(steps, prices, later, range(len(prices)))
    for place, (_, asked) in enumerate(by_set):
        better = asked > value + TIE
        value[better], choice[better] = asked[better], place
    return _StageWorth(steps, prices, stopping, later, value, tuple([arms for arms, _ in by_set]), choice)


def _values_by_set(
    steps: Sequence[_ArmStep], prices: Sequence[float], value: Array, arms: Sequence[int]
) -> list[tuple[tuple[int, ...], Array]]:
    """The value of asking each set of arms together at every node, less its price."""
    after: list[tuple[tuple[int, ...], Array, float]] = [((), value, 0.0)]
    for arm in arms:
        after += [
            ((*others, arm), steps[arm].expected(expected), paid + prices[arm])
            for others, expected, paid in after
        ]
    return [(others, expected - paid) for others, expected, paid in after[1:]]


@lru_cache(maxsize=16)
def _arm_steps(beliefs: Beliefs) -> tuple[_ArmStep, ...]:
    by_arm: dict[int, list[tuple[NDArray[np.int64], NDArray[np.int64], Array]]] = {}
    for level, level_votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            by_arm.setdefault(step.arm, []).append((step.nodes, step.following, votes))
    return tuple(
        _ArmStep(
            np.concatenate([nodes for nodes, _, _ in by_arm[arm]]),
            np.concatenate([following for _, following, _ in by_arm[arm]], axis=1),
            np.concatenate([votes for _, _, votes in by_arm[arm]], axis=1),
        )
        for arm in sorted(by_arm)
    )


_TEACHING_LABELS = 50.0
"""After so many human labels a decision's own score counts as half taught by people."""

_SLACK, _SLACK_AT_LEAST = 1.5, 0.01
"""A promised error rate is 1.5 times the plan's own estimate, plus 0.01.

The estimate is about right on average. The margin is needed because the plan was chosen by the same estimates
and because a model that was fitted to few rounds misses rare patterns.
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
    fit: JointFit | OrderedFit | None = None
    prices: tuple[float, ...] = ()
    silent: QuestionStages | None = None
    stops: AgreementStops | None = None

    @property
    def plan(self) -> Worth | GradedWorth | None:
        """The plan of whom to ask; ``None`` if all arms are asked."""
        return self._plan_after({})

    def _plan_after(self, votes: Cast) -> Worth | GradedWorth | None:
        """The plan after some votes."""
        if self.fit is None:
            return None
        if self.stops is None:
            return best_plan(self.fit, self.prices, self._silent(votes))
        stops, prices = self._stops_after(votes, self.fit.shortlist, self.prices)
        return plan_by_worth(self.fit.planned, prices, stops)

    def _stops_after(
        self, votes: Cast, arms: Sequence[str], prices: Sequence[float]
    ) -> tuple[Stops, tuple[float, ...]]:
        """The stops after some votes, and the prices of arms: plans do not count on those that gave no vote.

        With stops that were tested on plans for all arms they do.
        """
        silent = self._silent(votes)
        if self.stops is None:
            return RIGHT_LABELS, prices_without(silent, arms, prices)
        stops = self.stops.without([at for at, arm in enumerate(arms) if arm in silent])
        return stops, tuple(prices) if stops is self.stops else prices_without(silent, arms, prices)

    def _silent(self, votes: Cast) -> set[str]:
        """The arms that were asked and gave none of the labels."""
        return {arm for arm, vote in votes.items() if vote not in self.labels}

    @property
    def kept(self) -> bool:
        """Whether rounds with a human label are kept whole: where the votes are labels."""
        return self.fit is not None

    @property
    def named(self) -> tuple[str, ...]:
        """The labels that vote patterns name."""
        return named_labels(self.labels, ordered=isinstance(self.fit, OrderedFit))

    def places(self, arms: Sequence[str], votes: Cast) -> tuple[VotePattern, ...]:
        """No places: votes are labels."""
        return ()

    def decision(
        self, decision: Decision, votes: Cast, labels: Sequence[str], sure: Sure = UNKNOWN
    ) -> Decision:
        """The best label, which is the most probable one unless labels are ordered or not worth the same.

        It is the weighted vote's label if that is as good.
        """
        if self.fit is None:
            return decision
        if self.silent is not None:
            return self._after_reply(votes, sure).decision(decision, votes, labels, sure)
        probabilities = self.fit.probabilities(votes, sure)
        worths, values = self.fit.worths(probabilities), self.fit.values(probabilities)
        leader = max(values, key=lambda label: values[label])
        label = decision.label if values[decision.label] > values[leader] - TIE else leader
        count = self.fit.human_labels
        by_labels = count / (count + _TEACHING_LABELS)
        by_context = self.fit.updated_by_context(votes, sure, label, worths[label])
        score = min(worths[label], 1.0)  # the sum of probabilities may exceed it by rounding
        return Decision(label, score, worths, (1.0 + max(by_labels, by_context)) / 2.0)

    def compared(self, votes: Cast, sure: Sure) -> tuple[SureVote, ...]:
        """Compare each vote that has a confidence with the label that the other arms' votes make probable.

        A vote is left out if none of the others voted, or if two labels are equally probable by them.
        """
        if self.fit is None:
            return ()
        if self.silent is not None and self.silent.fit is not None:
            # The student learnt from the others, so it is no independent evidence for them.
            without = {arm: label for arm, label in votes.items() if arm != STUDENT}
            return (
                *self.silent.compared(without, {arm: sure[arm] for arm in sure if arm != STUDENT}),
                *self._compared([STUDENT] if STUDENT in sure else [], votes, sure, self.silent.fit.by_votes),
            )
        return self._compared(sorted(sure), votes, sure, self.fit.by_votes)

    @staticmethod
    def _compared(
        arms: Sequence[str], votes: Cast, sure: Sure, fit: JointFit | OrderedFit
    ) -> tuple[SureVote, ...]:
        compared = []
        for arm in arms:
            others = {other: label for other, label in votes.items() if other != arm and label is not None}
            if (vote := votes.get(arm)) is None or not others:
                continue
            (best, chance), *rest = sorted(fit.probabilities(others).items(), key=lambda item: -item[1])
            if chance > (rest[0][1] if rest else 0.0) + TIE:
                compared.append(SureVote(arm, vote, level_of(sure[arm]), vote == best))
        return tuple(compared)

    def gains(self, votes: Cast, prices: Mapping[str, float], sure: Sure = UNKNOWN) -> dict[str, float]:
        """What asking each arm adds, before its price, in the unit of prices, for arms that were not asked.

        Prices are in right labels, or with ``stops`` shares of the price of all.
        """
        if self.silent is not None:
            return self._after_reply(votes, sure).gains(votes, prices, sure)
        if self.fit is None or (plan := self._plan_after(votes)) is None:
            return {arm: np.inf for arm in prices if arm not in votes}
        rare, leads = self._rare(votes, sure, [arm for arm in prices if arm not in votes])
        if leads:
            return rare
        node = self.fit.plan_node(votes)
        if self._finishes(node, votes):
            return {arm: np.inf for arm in prices if arm not in votes}
        stopping, asking = plan.at(node, self.fit.tilt(votes, sure))
        stopping = max(stopping, self.fit.unasked if self.stops is None else self.stops.nothing)
        by_plan = {
            arm: value - stopping + prices[arm]
            for arm, value in zip(self.fit.shortlist, asking, strict=True)
            if arm not in votes
        }
        return by_plan | {arm: max(gain, by_plan.get(arm, 0.0)) for arm, gain in rare.items()}

    def together(self, votes: Cast, sure: Sure = UNKNOWN) -> list[str]:
        """The arms to ask now by the question's own plan, the best one first; empty to stop."""
        if self.silent is not None:
            return self._after_reply(votes, sure).together(votes, sure)
        if self.fit is None or (plan := self._plan_after(votes)) is None or self._rare(votes, sure, ())[1]:
            return []
        node, tilt = self.fit.plan_node(votes), self.fit.tilt(votes, sure)
        if self._finishes(node, votes):
            return [arm for arm in self.fit.arms if arm not in votes]
        return [self.fit.shortlist[arm] for arm in plan.together(node, tilt)]

    def within(self, votes: Cast, prices: Mapping[str, float], left: int, sure: Sure = UNKNOWN) -> list[str]:
        """The arms to ask now if ``left`` stages, at least 1, are left with the next one; empty to stop."""
        if self.silent is not None:
            return self._after_reply(votes, sure).within(votes, prices, left, sure)
        if self.fit is None:
            return [arm for arm in prices if arm not in votes]
        rare, leads = self._rare(votes, sure, [arm for arm in prices if arm not in votes])
        worthwhile = [arm for arm, gain in rare.items() if prices[arm] < gain]
        if leads:
            return worthwhile
        node, arms = self.fit.plan_node(votes), self.fit.shortlist
        if self._finishes(node, votes):
            return [arm for arm in prices if arm not in votes]
        if isinstance(graded := self._plan_after(votes), GradedWorth):
            stopping, asking = graded.at(node, self.fit.tilt(votes, sure))
            if max(asking, default=-np.inf) <= stopping + TIE:
                return worthwhile
        stops, paid = self._stops_after(votes, arms, [prices.get(arm, 0.0) for arm in arms])
        allowed = [place for place, arm in enumerate(arms) if arm in prices and arm not in votes]
        plan = _plan_by_stages(self.fit.planned, paid, min(left, len(arms)), stops)
        return [arms[place] for place in plan.together(node, allowed)] or worthwhile

    def leader(self, votes: Cast, sure: Sure) -> str | None:
        """The best label; ``None`` for a question whose votes are not labels."""
        if self.silent is not None:
            return self._after_reply(votes, sure).leader(votes, sure)
        if self.fit is None:
            return None
        values = self.fit.values(self.fit.probabilities(votes, sure))
        return max(values, key=lambda label: values[label])

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
        kept = float(kept_labels(fit.planned)[fit.plan_node(votes)])
        if fit.rare is not None:
            probabilities = fit.probabilities(votes, sure)
            kept = fit.rare.kept(probabilities, fit.values(probabilities), kept)
        return min(_SLACK * (1.0 - kept) + _SLACK_AT_LEAST, 1.0)

    def _rare(self, votes: Cast, sure: Sure, arms: Sequence[str]) -> tuple[dict[str, float], bool]:
        """What the votes of arms add because a rare label may be right, and whether one leads."""
        if self.fit is None or self.fit.rare is None:
            return {}, False
        rare, posterior = self.fit.rare, self.fit.probabilities(votes, sure)
        values = self.fit.values(posterior)
        return rare.gains(posterior, values, arms, dict(self.fit.losses)), rare.leads(values)

    def _finishes(self, node: int, votes: Cast) -> bool:
        """Whether all arms that are left are asked now, also those outside the shortlist."""
        plan = self.plan
        if self.fit is None or self.stops is None or not isinstance(plan, Worth):
            return False
        return plan.finishes(node, [at for at, arm in enumerate(self.fit.shortlist) if arm not in votes])

    def _after_reply(self, votes: Cast, sure: Sure) -> QuestionStages:
        """The stages that count once the student has replied."""
        if self.silent is None or not isinstance(self.fit, JointFit):
            return self
        if votes.get(STUDENT) not in self.fit.labels:
            return self.silent
        return QuestionStages(self.labels, self.fit.after_reply(votes, sure), self.prices)

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two parts of a plan's description as plain JSON: entries of ``stages``, and entries next to it."""
        if self.fit is None:
            return {}, {}
        stops = {} if self.stops is None else {"agreement": self.stops.describe()}
        return stops, {"scale" if isinstance(self.fit, OrderedFit) else "joint": self.fit.describe()}


AnyStages: TypeAlias = QuestionStages | SpanStages
"""The stages of one question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of a task: arms are asked while they add more right labels than they cost.

    With several questions, the gains of one arm on all of them are added up.

    Attributes:
        order: all arms; those of the first stage come first, the others by price.
        exploration: the outcome of the exploration draw; ``"everyone"`` asks all arms whatever they vote, but
            for those that the task spares (:meth:`camvo.policies.joint.Joint.assemble`).
        propensity: the probability of asking all arms independently of the votes.
        questions: question → its stages.
        count: how many arms the first stage asks.
        prices: arm → its price, with what the wait for it is worth, in right labels, or as a share of the
            price of all where an agreement is required; for all arms but the student.
        left: how many stages are left, the next one included; ``None`` for as many as there are arms.
        opening: if the task asks all arms only because little is known yet: how many such tasks are needed.
    """

    order: tuple[str, ...]
    exploration: Exploration
    propensity: float
    questions: Mapping[str, AnyStages]
    count: int
    prices: Mapping[str, float]
    left: int | None = None
    opening: int = 0

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

        With few labels the pattern names them. Of spans it holds the places, and tests no stop.
        """
        stages = self.questions[question]
        everyone = self.exploration == "everyone"
        if everyone:  # an arm that the round spared may have been asked later, because of the votes
            votes = {arm: vote for arm, vote in votes.items() if arm in self.first or arm == STUDENT}
            sure = {arm: share for arm, share in sure.items() if arm in votes}
        arms = sorted(self.order)
        pattern = VotePattern.of(arms, votes, everyone=everyone, labels=stages.named)
        places = stages.places(arms, votes) if everyone else ()
        if not everyone or isinstance(stages, SpanStages):  # spans are seldom the same to the character
            return ExplorationRound(pattern, None, places=places)
        early = self._early_votes(question, votes, sure)
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
        """The votes that are asked for without exploration; ``None`` if the round does not show them."""
        stages = self.questions[question]
        if stages.fit is None or not any(votes.values()):
            return None
        said = votes.get(STUDENT)
        alone = {question: stages}
        early: dict[str, dict[str, str]] = {} if said is None else {STUDENT: {question: said}}
        confidences = {arm: {question: confidence} for arm, confidence in sure.items()}
        while arms := next_arms(alone, self.prices, early, confidences):
            if not votes.keys() >= {*arms}:
                return None  # a draw spared an arm that the plan asks
            for arm in arms:
                vote = votes.get(arm)
                early[arm] = {} if vote is None else {question: vote}
        return {arm: answers.get(question) for arm, answers in early.items()}


def next_arms(
    questions: Mapping[str, AnyStages],
    prices: Mapping[str, float],
    votes: Votes,
    confidences: Confidences = NO_CONFIDENCES,
    *,
    left: int | None = None,
) -> list[str]:
    """The arms to ask now; empty if no arm adds more right labels than its price in right labels.

    ``left`` is the number of stages left; ``None`` for as many as there are arms.
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
