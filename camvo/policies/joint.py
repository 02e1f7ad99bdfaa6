"""The joint policy: one model of votes predicts what further votes would change, and chooses which to buy."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.joint.agreement import AgreementStops, rounds_needed
from camvo.joint.joint_fit import JointFit
from camvo.joint.label_losses import NO_LOSSES, LabelLosses, arms_in_plan
from camvo.joint.lattice import most_arms
from camvo.joint.ordered_fit import OrderedFit
from camvo.joint.places import SpanFit
from camvo.joint.plans import caution, shadow_price
from camvo.policies.ensemble import Choice, Ensemble, Situation
from camvo.policies.parameters import DEFAULT, WORTH, ByLabel, JointParameters
from camvo.policies.policy import (
    MOST_ROUNDS,
    AnyFit,
    Conditions,
    Drawn,
    Fit,
    FitData,
    JointFitData,
    Observation,
    Plan,
    fitted,
)
from camvo.stages.span_stages import SpanStages, span_shadow_price
from camvo.stages.stages import (
    AnyStages,
    QuestionStages,
    Stages,
    cheapest_first,
    next_arms,
    on_question,
    uniform_draw,
)
from camvo.state.contribution import LatestRounds
from camvo.state.earlier import NOTHING_EARLIER
from camvo.state.exploration import PatternCounts
from camvo.student import STUDENT
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation, Decision
from camvo.votes.labels import LABEL_VOTE, OrderedVote
from camvo.votes.registry import can_stop_early
from camvo.votes.spans import SpanVote

FIRST: Final = 36
"""The number of rounds that ask all arms before any round stops early; counted anew when an arm joins."""

_LEAST_FIRST: Final = 18
"""The same where earlier projects taught what can be expected of the arms: these rounds test it."""

MOST_FIRST: Final = 200
"""Where an agreement is required, at most this many first rounds ask all arms; fewer if fewer can prove it.
While there are too few such rounds, the others stop only where the label is certain."""

LEAST_PACE: Final = 10.0
_MOST_PACE: Final = 144.0
"""Bounds of the pace at which rounds ask all arms (:func:`exploration_pace`)."""

_EXPLOIT: Final = 3.0
"""Under a small allowance, rounds that ask all arms take a third of the money; the others learn from them."""


def exploration_pace(regret: float | None, everyone: float) -> float:
    """The pace p of exploration: later rounds ask all arms so often that E² grows by p with each round.

    Where E rounds leave a regret of a/E prices of asking all arms in each of n tasks, their cost and the
    regret together, c·E + n·a/E, are least with E² = a·n/c. A plan costs about half the price of asking all
    arms, so such a round costs half of it more, c = ½, and p is 2·a.

    Args:
        regret: what plans lose in a task because their fit is uncertain, in prices of asking all arms;
            ``None`` if it is not known.
        everyone: how many rounds asked all arms.
    """
    return FIRST if regret is None else min(max(2.0 * regret * everyone, LEAST_PACE), _MOST_PACE)


def exploration_within(rate: float, allowance: float) -> tuple[float, float]:
    """How often rounds may ask all arms under an allowance, and what is left of it for the other rounds.

    ``allowance`` is what a task may cost on average, in prices of asking all arms; 1 and more change nothing.
    """
    if allowance >= 1.0:
        return rate, allowance
    rate = min(rate, allowance / (_EXPLOIT - (_EXPLOIT - 1.0) * allowance))
    return rate, (allowance - rate) / (1.0 - rate)


def _tasks(situation: Situation) -> list[Array | str]:
    """What identifies the task in draws: for each question its name or its context."""
    named = [observation for _, observation in sorted(situation.observations.items())]
    return [observation.task or observation.context for observation in named]


def _everyone_rounds(situation: Situation, slow: Container[str]) -> int:
    """How many rounds asked all arms whatever they voted, on the least explored question.

    A round that spared slow arms counts too: the others need not be explored again because of them.
    """
    models = [arm for arm in situation.costs if arm != STUDENT]
    models = [arm for arm in models if arm not in slow] or models
    explored = (observation.state.exploration for observation in situation.observations.values())
    return min(sums.everyone_rounds(models) for sums in explored)


def _spared(situation: Situation, waits: Mapping[str, float]) -> set[str]:
    """The arms that the task spares if its round asks everyone: at random, but never all of them.

    On average the wait for such an arm is worth no more than the price of asking all arms. ``waits`` are
    shares of that price.
    """
    spared = {
        arm
        for arm, wait in waits.items()
        if uniform_draw([*_tasks(situation), arm], situation.rounds) * wait >= 1.0
    }
    return spared if len(spared) < len(situation.costs.keys() - {STUDENT}) else set()


def _usual(worth: float | ByLabel) -> float:
    """The worth of a label without one of its own."""
    if isinstance(worth, ByLabel):
        return worth.get(DEFAULT, WORTH)
    return worth


@dataclass(frozen=True, slots=True)
class _OrderedFitData:
    """The data for a fit of the model of votes on ordered labels.

    Attributes:
        evidence: the vote patterns of past rounds.
        latest: the latest rounds that are kept whole, those with a human label.
        vote: the scale and the error.
        prices: (arm, its price in right labels), by name; all 0 if plans can hold all arms.
        losses: what missing each label loses; empty if all labels are worth the same.
    """

    evidence: PatternCounts
    latest: LatestRounds
    vote: OrderedVote
    prices: tuple[tuple[str, float], ...]
    losses: LabelLosses = NO_LOSSES

    @property
    def counted(self) -> int:
        """The rounds."""
        return self.evidence.rounds

    @property
    def basis(self) -> Hashable:
        """The rounds."""
        return self.evidence, self.latest

    @property
    def kind(self) -> Hashable:
        """The scale with its error and losses, the arms, and whether there are human labels."""
        return self.vote, self.losses, frozenset(arm for arm, _ in self.prices), bool(self.latest.rounds)

    def compute(self) -> Fit:
        """Fit the model of votes."""
        return Fit(OrderedFit.fit(self.evidence, self.latest, self.vote, dict(self.prices), self.losses))


@dataclass(frozen=True, slots=True)
class _SpanFitData:
    """The data for a fit of the model of marks where votes are spans.

    Attributes:
        evidence: the places and the vote patterns of past rounds.
        latest: the latest rounds that are kept whole, those with a human label.
        prices: (arm, its price in right labels), by name; all 0 if plans can hold all arms.
    """

    evidence: PatternCounts
    latest: LatestRounds
    prices: tuple[tuple[str, float], ...]

    @property
    def counted(self) -> int:
        """The rounds."""
        return self.evidence.rounds

    @property
    def basis(self) -> Hashable:
        """The rounds."""
        return self.evidence, self.latest

    @property
    def kind(self) -> Hashable:
        """The arms, and whether there are human labels."""
        return "spans", frozenset(arm for arm, _ in self.prices), bool(self.latest.rounds)

    def compute(self) -> Fit:
        """Fit the model of marks."""
        return Fit(SpanFit.fit(self.evidence, self.latest, dict(self.prices)))


@dataclass(frozen=True, kw_only=True)
class Joint(Ensemble, JointParameters):
    """Ask the arms whose votes are worth their price, in the best order, by one model of votes.

    Where an agreement is required, the policy asks the arms whose votes could still change the label.

    Some rounds ask all arms: the first 36, and later ones drawn at random, the more often the more
    plans lose because their fit is uncertain (:mod:`camvo.joint.regret`). The model of votes is fitted to
    these rounds without any ground truth. Human labels correct it. A slow arm (:attr:`.Conditions.waits`) is
    spared at random, so often that waiting for it is worth no more than the price of asking all arms.

    Attributes:
        worth: the worth of one more right label, in prices of asking all models; positive and finite. Or, by
            label, the worth of not missing it (:class:`.ByLabel`).
        worth_usd: the same in the unit of the prices, such as dollars; ``None`` to go by ``worth``. What
            asking all models costs for a task then says how many askings a right label is worth there.
        recall: label → the share of the tasks with it that must be found (:mod:`camvo.scores.guarantee`).
            Missing such a label counts as 1 / (1 − recall) wrong labels, unless ``worth`` names it.
        agreement: the smallest share of labels that must equal those of the votes of all models, in [0, 1];
            ``None`` to stop by ``worth``. With 1 a round stops only where no further vote can change the
            label. Contexts, confidences, a student and waits have no part in it.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=camvo.Joint())
    >>> for _ in range(40):
    ...     task = question.task([1.0, 0.0])
    ...     while models := task.ask():
    ...         task.add(dict.fromkeys(models, "pos"))
    ...     task.learn()
    >>> question.task([1.0, 0.0]).ask()
    ('small',)
    """

    @property
    def studies(self) -> bool:
        """Whether a student votes too: not where the label must be that of all models."""
        return self.agreement is None

    @property
    def spares(self) -> bool:
        """Whether slow arms may be left out: not where the label must be that of all models."""
        return self.agreement is None

    def worth_in_askings(self, costs: Mapping[str, float]) -> float:
        """The worth of one more right label, in prices of asking all models, at these prices."""
        total, usd = sum(costs.values()), self._usual_usd
        if usd is None or total <= 0.0:
            return _usual(self.worth)
        return float(f"{usd / total:.2g}")  # tasks of nearly the same price share one plan

    def worth_of(self, full: float) -> float:
        """The worth of one more right label about a task for which asking all models costs ``full``."""
        return _usual(self.worth) * full if self._usual_usd is None else self._usual_usd

    @property
    def _usual_usd(self) -> float | None:
        return None if self.worth_usd is None else _usual(self.worth_usd)

    def losses(self, labels: Sequence[str]) -> LabelLosses:
        """What missing each label loses, in right labels; empty if all labels are worth the same."""
        worth = self.worth if self.worth_usd is None else self.worth_usd
        usual, sought = _usual(worth), self.recall or ByLabel()
        own = worth if isinstance(worth, ByLabel) else ByLabel()
        losses = tuple(
            [
                (
                    label,
                    1.0 / (1.0 - sought[label])
                    if label in sought and label not in own
                    else own.get(label, usual) / usual,
                )
                for label in labels
            ]
        )
        return losses if any(loss != 1.0 for _, loss in losses) else NO_LOSSES

    def likely(self, posterior: Mapping[str, float]) -> dict[str, float]:
        """The scores of the labels with a recall, by which tasks with such a label are found.

        ``posterior`` is that of a decision (:class:`camvo.votes.aggregation.Decision`).
        """
        return {label: posterior[label] for label in self.recall or () if label in posterior}

    def policy_for(self, worth_usd: float) -> Joint:
        """The same policy for further votes on decided rounds, at this worth of a right label."""
        worth = self.worth if self.worth_usd is None else self.worth_usd
        usd: float | ByLabel = worth_usd
        if isinstance(worth, ByLabel):
            usual = _usual(worth)
            usd = ByLabel({label: each / usual * worth_usd for label, each in worth.items()})
            usd[DEFAULT] = worth_usd
        return replace(self, worth_usd=usd, agreement=None)

    def linear(self, aggregation: Aggregation) -> bool:
        """Whether the linear models are read: not for votes that are counted by a model of votes."""
        return not can_stop_early(aggregation)

    def assemble(self, situation: Situation, choice: Choice) -> Plan:
        """Make the plan: draw for exploration, and freeze the order and the stops."""
        plan, stages = super().assemble(situation, choice), self._staged(situation)
        first = frozenset(stages.first)
        return replace(
            plan,
            subset=tuple([arm for arm in plan.arms if arm in first]),
            propensity=np.array([1.0 if arm in first else stages.propensity for arm in plan.arms]),
            stages=stages,
        )

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms of the next stage; empty if every question can be decided."""
        return self._stages(plan).after(votes, confidences)

    def decide(
        self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES
    ) -> dict[str, Decision]:
        """Decide by the weighted vote, corrected by the model of votes."""
        stages, decisions = self._stages(plan), super().decide(plan, votes)
        for question, decision in decisions.items():
            cast = {arm: answers.get(question) for arm, answers in votes.items()}
            labels = plan.estimates[question].labels
            sure = on_question(confidences, question)
            decisions[question] = stages.questions[question].decision(decision, cast, labels, sure)
        return decisions

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> FitData | None:
        """The rounds for a fit of the model of votes; ``None`` if there is no model of such votes."""
        if not self._fits(observation.aggregation):
            return None
        latest = observation.state.kept_rounds.latest(MOST_ROUNDS)
        evidence = observation.state.exploration.evidence
        order, shares = cheapest_first(costs)
        by_name = tuple(sorted(zip(order, shares, strict=True)))
        # Prices only choose among more arms than a plan can hold. Tasks of all lengths share one fit.
        losses = self.losses(observation.labels)
        if isinstance(observation.aggregation, SpanVote):
            few = len(order) <= most_arms(2)
        elif isinstance(observation.aggregation, OrderedVote):
            few = len(order) <= most_arms(len(observation.labels), ordered=True)
        else:
            few = len(order) <= arms_in_plan(observation.labels, losses)
        worth = self.worth_in_askings(costs)
        prices = tuple([(arm, 0.0 if few else share / worth) for arm, share in by_name])
        models = tuple([(arm, price) for arm, price in prices if arm != STUDENT])
        if isinstance(observation.aggregation, SpanVote):
            return _SpanFitData(evidence, latest, models)
        if isinstance(observation.aggregation, OrderedVote):
            return _OrderedFitData(evidence, latest, observation.aggregation, models, losses)
        of_models = {arm: costs[arm] for arm, _ in models}
        if self.agreement is not None:
            return JointFitData(
                evidence,
                latest,
                observation.labels,
                prices,
                agreement=self.agreement,
                shares=by_name,
                earlier=NOTHING_EARLIER.priced(of_models),
            )
        earlier = observation.state.earlier.priced(of_models)
        sure, contexts = observation.state.confidences.evidence, observation.state.context_rounds.latest
        return JointFitData(
            evidence,
            latest,
            observation.labels,
            prices,
            sure,
            contexts,
            losses=losses,
            earlier=earlier,
            explored=observation.state.exploration.explored,
        )

    def _fits(self, aggregation: Aggregation) -> bool:
        """Whether votes are counted by a model; an agreement is kept by asking all arms about a scale."""
        return aggregation == LABEL_VOTE or (self.agreement is None and can_stop_early(aggregation))

    def _staged(self, situation: Situation) -> Stages:
        """The stages of a task."""
        observations, costs, conditions = situation.observations, situation.costs, situation.conditions
        draw = uniform_draw(_tasks(situation), situation.rounds)
        order, shares = cheapest_first(costs)
        slow = conditions.waits if self.spares else {}
        waits = _shares_of_waits(costs, slow)
        spared = set() if conditions.everyone else _spared(situation, waits)
        everyone = _everyone_rounds(situation, slow)
        fits = {name: self._fit(observation, costs) for name, observation in observations.items()}
        head, regret = self._known_before(fits.values(), costs)
        rate = self.exploration_rate(everyone + conditions.waiting.everyone, head, regret)
        rate = 0.0 if conditions.decided else rate
        # rounded, so that tasks share plans; an agreement is kept whatever it costs
        allowance = math.inf if self.agreement is not None else float(f"{conditions.allowance:.2g}")
        if allowance < 1.0:
            rate, allowance = exploration_within(rate, allowance)
        if conditions.everyone:
            drawn = Drawn("everyone", 1.0, ())
        else:
            drawn = conditions.drawn or Drawn("everyone" if draw < rate else "nobody", rate, ())
        unit = self._unit(costs, everyone + head, conditions)
        # A vote of an arm that answers every other time costs twice its price, and twice the wait.
        answering = {} if self.agreement is not None else _answering(fits.values())
        paid = {arm: share / answering.get(arm, 1.0) for arm, share in zip(order, shares, strict=True)}
        prices = {arm: share / unit for arm, share in paid.items()}
        # A right label is worth more where little is known, so that plans do not stop too early: this is no
        # reason to wait for a slow arm in place of asking the others.
        worth = self.worth_in_askings(costs)
        waits = {arm: share / answering.get(arm, 1.0) / worth for arm, share in waits.items()}
        if allowance < 1.0:
            draw = max(draw - rate, 0.0) / (1.0 - rate) if rate < 1.0 else draw
            dearer = _shadow_price(fits.values(), prices, paid, waits, allowance=allowance, draw=draw)
            prices = {arm: dearer * price for arm, price in prices.items()}
        prices = {arm: price + waits.get(arm, 0.0) for arm, price in prices.items()}
        questions = {
            name: _question_stages(observation, fits[name], prices)
            for name, observation in observations.items()
        }
        if STUDENT in costs:  # it answers at once, so its vote is known before any model is asked
            del prices[STUDENT]
        all_arms = tuple([arm for arm in order if arm not in spared])
        first = self._first(questions, prices, all_arms, conditions, drawn)
        return Stages(
            order=(*first, *[arm for arm in order if arm not in first]),
            exploration=drawn.exploration,
            propensity=drawn.rate,
            questions=questions,
            count=len(first),
            prices=prices,
            left=conditions.stages,
            opening=0
            if conditions.everyone or rate < 1.0 or None in fits.values()
            else max(self._first_rounds(head) - everyone, 0),
        )

    @staticmethod
    def _first(
        questions: Mapping[str, AnyStages],
        prices: Mapping[str, float],
        everyone: tuple[str, ...],
        conditions: Conditions,
        drawn: Drawn,
    ) -> tuple[str, ...]:
        """The arms of the first stage; ``everyone`` are those of a round that asks everyone."""
        if conditions.decided:
            return ()
        if drawn.exploration == "everyone":
            return everyone
        if drawn.first:
            return tuple([arm for arm in drawn.first if arm in everyone])
        if STUDENT in everyone:
            return (STUDENT,)
        return tuple(next_arms(questions, prices, {}, left=conditions.stages))

    def _known_before(
        self, fits: Collection[Fit | None], costs: Mapping[str, float]
    ) -> tuple[float, float | None]:
        """As how many rounds that asked all arms earlier projects count, and what plans lose without more.

        The former is the least of all questions. The latter is in prices of asking all arms, and ``None`` if
        it is not known of every question.
        """
        joint = [fit.joint for fit in fits if fit is not None and isinstance(fit.joint, JointFit)]
        if len(joint) < len(fits):
            return 0.0, None
        lost = [fit.regret for fit in joint if fit.regret is not None]
        regret = sum(lost) * self.worth_in_askings(costs) if len(lost) == len(joint) else None
        return min(fit.head_start for fit in joint), regret

    def exploration_rate(self, everyone: int, head_start: float = 0.0, regret: float | None = None) -> float:
        """How often rounds ask all arms, whatever they vote, after ``everyone`` that did; in [0, 1].

        ``head_start``: as how many such rounds earlier projects count. ``regret``: see
        :func:`exploration_pace`.
        """
        if everyone < self._first_rounds(head_start):
            return 1.0
        known = everyone + head_start
        return min(1.0, exploration_pace(regret, known) / 2.0 / known)

    def _first_rounds(self, head_start: float) -> int:
        """How many rounds ask all arms before any round stops early."""
        if self.agreement is not None:
            return min(max(FIRST, rounds_needed(self.agreement)), MOST_FIRST)
        return max(FIRST - round(head_start), _LEAST_FIRST)

    def _unit(self, costs: Mapping[str, float], everyone: float, conditions: Conditions) -> float:
        """The worth of a unit of value, in prices of asking all arms; 1 where an agreement is required."""
        if self.agreement is not None:
            return 1.0
        return self.worth_in_askings(costs) * (1.0 if conditions.decided else caution(everyone))

    def joint_fit(self, observation: Observation, costs: Mapping[str, float]) -> AnyFit | None:
        """The fit of the model of votes; ``None`` for a question without one."""
        fit = self._fit(observation, costs)
        return None if fit is None else fit.joint

    def _fit(self, observation: Observation, costs: Mapping[str, float]) -> Fit | None:
        """The fit in the observation, or one computed now; ``None`` for a question without one."""
        fit = observation.fit if self._fits(observation.aggregation) else None
        if fit is None and (data := self.fit_data(observation, costs)) is not None:
            fit = fitted(data)
        if fit is not None and (fit.stops is None) != (self.agreement is None):
            raise InvalidParameterError("the background fit in this observation is of another policy")
        return fit

    @staticmethod
    def _stages(plan: Plan) -> Stages:
        if plan.stages is None:
            raise InvalidParameterError("this plan was made by a policy that does not ask in stages")
        return plan.stages


def _answering(fits: Iterable[Fit | None]) -> Mapping[str, float]:
    """Arm → how often it votes if it is asked, by the question on which it does so most often."""
    found: dict[str, float] = {}
    for fit in fits:
        if fit is None:
            return {}
        found |= {arm: max(share, found.get(arm, 0.0)) for arm, share in fit.joint.answering.items()}
    return found


def _shadow_price(
    fits: Iterable[Fit | None],
    prices: Mapping[str, float],
    paid: Mapping[str, float],
    waits: Mapping[str, float],
    *,
    allowance: float,
    draw: float,
) -> float:
    """The factor on prices with which each question keeps to the allowance on average.

    ``paid`` has each arm's share of the price of all arms, and ``waits`` what waiting for slow ones is worth.
    """
    dearer = [1.0]
    for fit in fits:
        if fit is None:
            continue
        joint = fit.joint
        in_shortlist = tuple([prices[arm] for arm in joint.shortlist])
        shares = tuple([paid[arm] for arm in joint.shortlist])
        waited = tuple([waits.get(arm, 0.0) for arm in joint.shortlist])
        if isinstance(joint, SpanFit):
            dearer.append(span_shadow_price(joint, in_shortlist, shares, allowance, draw, waits=waited))
        else:
            dearer.append(shadow_price(joint.planned, in_shortlist, shares, allowance, draw, waits=waited))
    return max(dearer)


def _question_stages(observation: Observation, fit: Fit | None, prices: Mapping[str, float]) -> AnyStages:
    """The stages of one question of a task."""
    if fit is None:
        return QuestionStages(observation.labels)
    if isinstance(fit.joint, SpanFit):
        in_shortlist = tuple([prices[arm] for arm in fit.joint.shortlist])
        return SpanStages(observation.labels, fit.joint, in_shortlist)
    return _label_stages(fit.joint, observation.context, prices, fit.stops)


def _label_stages(
    joint: JointFit | OrderedFit,
    context: Array,
    prices: Mapping[str, float],
    stops: AgreementStops | None = None,
) -> QuestionStages:
    """The stages of a question whose votes are labels, ordered or not."""
    silent = None if joint.silent is None else _label_stages(joint.silent, context, prices)
    joint = joint.at(context, prices)
    in_shortlist = tuple([prices[arm] for arm in joint.shortlist])
    return QuestionStages(joint.options, joint, in_shortlist, silent, stops)


def _shares_of_waits(costs: Mapping[str, float], waits: Mapping[str, float]) -> dict[str, float]:
    """Each arm's wait as a share of the price of all, rounded as prices are; of all waits if arms are free.

    Arms without a wait, and waits without a price, are left out.
    """
    waits = {arm: waits[arm] for arm in costs if waits.get(arm, 0.0) > 0.0}
    total = sum(costs[arm] for arm in sorted(costs)) or sum(waits[arm] for arm in sorted(waits))
    return {arm: float(f"{wait / total:.2g}") for arm, wait in waits.items()}
