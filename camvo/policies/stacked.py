"""The stacked vote as a policy: human labels decide what votes are worth and when to stop asking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.policies.background_fits import MOST_ROWS, StackedMaterial, StackedStudy
from camvo.policies.ensemble import Ensemble
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.stages.asking_order import cheapest_first
from camvo.stages.courses import Course, Courses
from camvo.stages.stack_stops import Stops
from camvo.stages.stages import throw
from camvo.state.contribution import Contribution
from camvo.state.kept_rounds import Row
from camvo.typing import Array, Votes
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE

_COIN: Final = 0.03


@dataclass(frozen=True, kw_only=True)
class Stacked(Ensemble):
    """Ask in stages, the cheapest first, and let human labels say what the votes are worth.

    Everyone is asked at first, and later where a coin says so (3%). Those rounds teach the weights
    and the stops; the others teach nothing, unless a human labels them: models that are asked because others
    disagree look worse than they are.

    Attributes:
        worth: what one more right label is worth, in prices of asking everyone.
        max_stages: how often models may be waited for.
        first: in how many rounds everyone is asked before any stops early, and again when a model joins.
            Human labels teach most there.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Stacked(first=200)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> question.task([1.0, 0.0]).ask()  # everyone, for the first 200 rounds
    ('small', 'large')
    """

    worth: float = 75.0
    max_stages: int = 3
    first: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.worth) and self.worth > 0.0):
            raise InvalidParameterError(f"a right label is worth something finite, got {self.worth}")
        if self.max_stages < 1:
            raise InvalidParameterError(f"models are asked in at least one stage, got {self.max_stages}")
        if self.first < 0:
            raise InvalidParameterError(f"a number of rounds is not negative, got {self.first}")

    def material(self, seen: Observation, costs: Mapping[str, float]) -> StackedMaterial | None:
        """The rounds that say what votes are worth, and the prices that say when one more is worth asking."""
        if seen.aggregation != LABEL_VOTE:
            return None
        order, prices = cheapest_first(costs)
        head = seen.state.rows.head(MOST_ROWS)
        return StackedMaterial(head, seen.labels, order, prices, 1.0 / self.worth, self.max_stages)

    def plan_window(
        self, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
    ) -> list[Plan]:
        """Freeze the stacked vote, its stops and the coin of each task."""
        plans = super().plan_window(tasks, costs)
        return [self._staged(plan, task, costs) for plan, task in zip(plans, tasks, strict=True)]

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The next stage of the question that needs the most; nobody where all are content."""
        courses = _of(plan)
        upto = max(_after(plan, question, votes) for question in courses.of)
        return tuple(arm for arm in courses.order[:upto] if arm not in votes)

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The likeliest of the labels that got a vote; the weighted vote decides a tie.

        Without a human label it is the weighted vote with its own score.
        """
        decisions = super().decide(plan, votes)
        for question, course in _of(plan).of.items():
            if question not in decisions or course.stack is None or not course.stack.arms:
                continue
            cast, weights = _cast(plan, question, votes)
            labels = plan.estimates[question].labels
            chances = course.stack.probabilities(cast, weights, labels)
            leader, margin = course.stack.leader(cast, weights, labels)
            label = decisions[question].label
            if chances[label] < chances[leader] - TIE:
                label = leader
            score = course.stops.score(len(votes), margin)
            if score is not None:
                chances = _with_score(chances, label, score)
            decisions[question] = Decision(label, chances[label], chances, course.stack.trust)
        return decisions

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """Rewards of the arms that were not asked because of the votes, and the round where it is kept."""
        courses = _of(plan)
        taught = super().contribution(plan, question, votes, label, human=human)
        if courses.of[question].stack is None:
            return taught
        row = Row.of(*_cast(plan, question, votes), label if human else None, everyone=courses.everyone)
        return replace(taught, kept=row)

    def _weights(self, estimates: Estimates) -> Array:
        return estimates.agreement

    def _staged(
        self, plan: Plan, observations: Mapping[str, Observation], costs: Mapping[str, float]
    ) -> Plan:
        order, _ = cheapest_first(costs)
        voted = [seen for seen in observations.values() if seen.aggregation == LABEL_VOTE]
        shown = min([seen.state.rows.shown(order) for seen in voted], default=0)
        chance = 1.0 if shown < self.first else _COIN
        rounds = min(seen.state.rounds for seen in observations.values())
        contexts = (seen.context for _, seen in sorted(observations.items()))
        thrown = throw(contexts, rounds) < chance
        everyone = Stops((len(order),), (-math.inf,))
        found, weights = {}, dict(plan.weights)
        for question, seen in observations.items():
            found[question] = Course(None, everyone)
            study = seen.study if isinstance(seen.study, StackedStudy) else None
            if study is None and (material := self.material(seen, costs)) is not None:
                study = material.study()
            if study is None:
                continue
            found[question] = Course(study.stack, everyone if thrown else study.stops)
            weights[question] = weights[question] * [study.shares[arm] for arm in plan.arms]
        return plan.staged(Courses(order, thrown, chance, found), weights, chance)


def _after(plan: Plan, question: str, votes: Votes) -> int:
    """How many arms of the order this question wants to have asked."""
    courses = _of(plan)
    course = courses.of[question]
    asked = sum(arm in votes for arm in courses.order)
    if not asked or course.stack is None:
        return course.stops.upto[0]
    cast, weights = _cast(plan, question, votes)
    if not any(cast.values()):
        return course.stops.after(asked, -math.inf)
    margin = course.stack.leader(cast, weights, plan.estimates[question].labels)[1]
    return course.stops.after(asked, margin)


def _cast(plan: Plan, question: str, votes: Votes) -> tuple[dict[str, str | None], dict[str, float]]:
    """What the arms that were asked said on one question, and the weights of all arms."""
    weights = dict(zip(plan.arms, plan.weights[question].tolist(), strict=True))
    return {arm: answers.get(question) for arm, answers in votes.items()}, weights


def _with_score(chances: Mapping[str, float], label: str, score: float) -> dict[str, float]:
    """The probabilities with that of ``label`` replaced; the others share the rest as they did."""
    rest = math.fsum([chance for other, chance in chances.items() if other != label])
    if not rest:
        return dict(chances)
    return {
        other: score if other == label else chance / rest * (1.0 - score) for other, chance in chances.items()
    }


def _of(plan: Plan) -> Courses:
    if not isinstance(plan.stages, Courses):
        raise InvalidParameterError("the plan was made by another policy: it has no stages")
    return plan.stages
