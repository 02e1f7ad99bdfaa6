"""One question's fit: the model of its votes, what human labels add, and the beliefs that plans need."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from camvo.joint.beliefs import Beliefs, believe, counts_over_model, updated_by_student
from camvo.joint.conventions import Conventions
from camvo.joint.grades import NO_GRADES, NOT_SURE, UNTAUGHT, Grades, SureVotes, tilted
from camvo.joint.human_terms import HumanTerms
from camvo.joint.label_losses import (
    NO_LOSSES,
    LabelLosses,
    answer_values,
    arms_in_plan,
    plan_node,
    weighed,
)
from camvo.joint.lattice import most_arms, vote_lattice
from camvo.joint.models import MOST_OTHERS, Kinds, VoteModel
from camvo.joint.ordered_fit import OrderedFit
from camvo.joint.plans import (
    GradedWorth,
    Worth,
    plan_by_graded_worth,
    plan_by_worth,
    prices_without,
    quick_prices,
)
from camvo.joint.rare_labels import RareLabels, labels_of_votes
from camvo.joint.regret import regret_of_explored
from camvo.joint.skills import ContextSkills, reading_by_contexts
from camvo.joint.two_coins import TwoCoins
from camvo.joint.votes import Rows, VoteRows, answering, families, renumber, row_of, tempers
from camvo.joint.votes_fit import (
    Doubt,
    VotesFit,
    as_people_prefer,
    correction,
    fit_votes_and_student,
    only_corrections,
)
from camvo.numerics.small import EPSILON, is_known, weighted_median
from camvo.state.contribution import LatestRounds
from camvo.state.earlier import NOTHING_EARLIER, Earlier
from camvo.state.exploration import NO_CONTEXTS, NO_PATTERNS, UNASKED, LatestContexts, PatternCounts
from camvo.student import STUDENT
from camvo.typing import Array

_ASKED: Final = 0.3
"""A plan asks an arm of its shortlist about roughly so many of the tasks, so its price counts so much."""


def _shortlist_of(
    votes: VotesFit, prices: Mapping[str, float], arms: tuple[str, ...], most: int
) -> tuple[str, ...]:
    """The arms that plans ask: greedily those whose votes add the most right labels for their price."""
    if len(arms) <= most:
        return arms
    counted = votes.rows.counts > 0.0
    rows, counts = votes.rows.rows[counted], votes.rows.counts[counted]
    total = max(float(counts.sum()), 1.0)
    chosen: list[int] = []
    while len(chosen) < most:
        gains = {}
        for position, arm in enumerate(arms):
            if position in chosen:
                continue
            among = np.full_like(rows, UNASKED)
            among[:, [*chosen, position]] = rows[:, [*chosen, position]]
            right, _ = votes.model.beliefs(among)
            gains[position] = float(counts @ right.max(axis=1)) / total - _ASKED * prices[arm]
        chosen.append(max(gains, key=lambda position: gains[position]))
    return tuple(arms[position] for position in sorted(chosen))


_SHOWN: Final = 4
"""Decimals of what a stored fit only shows."""

_TASK_NODES: Final = 5000
"""A lattice of beliefs about one task has at most this many nodes: they are computed for each task anew."""


_NO_CONFIDENCE: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class JointFit:
    """What votes on one question say. Hashed by identity.

    Attributes:
        arms: all K arms, sorted by name.
        labels: the labels that the model of votes distinguishes: all of the question, or the common ones.
        everyone: the number of rounds that asked all arms.
        model: the model of votes of all arms.
        excess: the excess agreement of each pair of arms, shape (K, K).
        human: what human labels add; ``None`` without human labels, and with conventions.
        shortlist: the arms that plans ask, sorted by name; all of them unless they are many.
        beliefs: the beliefs at the nodes of the shortlist's lattice.
        answering: arm → how often it votes if it is asked. So a vote costs the arm's price over this share.
        sure: what the arms' confidences add.
        silent: the fit for rounds in which the student says nothing; ``None`` without a student, or if its
            reply is known.
        reply: the log ratio of the student's confidence, if it is a part of the beliefs; otherwise 0.
        contexts: skills by context; ``None`` if they do not predict votes better.
        counted: what the counted rounds change of the model's beliefs, for tasks whose skills depend on their
            context; ``None`` without skills by context.
        anywhere: for the fit of a task whose context counts, the fit for a task of any context.
        contradicted: whether human labels prefer the plain majority, so that all arms count alike.
        corrections: whether human labels contradict the votes nearly always, and are therefore left out.
        conventions: what people say where the votes say a label, if human labels prove that it often differs.
        rare: the other labels of the question; ``None`` if there are none.
        doubt: a reading of the votes nearly as likely as the model's, so that all arms count alike.
        constant: the positions of the arms that say the same label whatever the others say. Their votes have
            no weight.
        earlier: the number of earlier projects that the skills start from.
        head_start: as how many rounds that asked all arms these count.
        losses: what missing each label loses; empty if all labels are worth the same.
        regret: what plans lose in a task because the fit is uncertain, in right labels; ``None`` if unknown.
    """

    arms: tuple[str, ...]
    labels: tuple[str, ...]
    everyone: float
    model: VoteModel
    excess: Array
    human: HumanTerms | None
    shortlist: tuple[str, ...]
    beliefs: Beliefs
    answering: Mapping[str, float]
    sure: SureVotes = NOT_SURE
    silent: JointFit | None = None
    reply: float = 0.0
    contexts: ContextSkills | None = None
    counted: Beliefs | None = None
    anywhere: JointFit | None = None
    contradicted: bool = False
    corrections: bool = False
    conventions: Conventions | None = None
    rare: RareLabels | None = None
    doubt: Doubt | None = None
    constant: tuple[int, ...] = ()
    earlier: int = 0
    head_start: float = 0.0
    losses: LabelLosses = NO_LOSSES
    regret: float | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The label set of the question."""
        return self.labels if self.rare is None else self.rare.options

    @property
    def human_labels(self) -> int:
        """The number of human labels that the fit knows."""
        taught = self.human or self.conventions
        return 0 if taught is None else taught.count

    @property
    def unasked(self) -> float:
        """What a task without any vote is worth, in right labels."""
        return max(self.values(dict.fromkeys(self.options, 1.0 / len(self.options))).values())

    @property
    def planned(self) -> Beliefs:
        """The beliefs as plans use them: with what missing each label loses."""
        return weighed(self.beliefs, self.labels, self.losses)

    @property
    def by_votes(self) -> JointFit:
        """The fit that says labels as the models do."""
        return self if self.conventions is None else replace(self, conventions=None)

    @property
    def reads_context(self) -> bool:
        """Whether skills depend on the context."""
        silent = self.silent is not None and self.silent.reads_context
        return self.contexts is not None or silent

    def at(self, context: Array, prices: Mapping[str, float]) -> JointFit:
        """The fit for one task: the same unless skills depend on the context and it is known.

        Prices, in any unit, choose the arms that the plan asks where arms are many.
        """
        if self.contexts is None or not is_known(context):
            return self
        model, most = self.contexts.model(context), arms_in_plan(self.labels, self.losses, _TASK_NODES)
        shortlist = self.shortlist
        if len(shortlist) > most:
            worth = dict(zip(self.arms, np.abs(model.skill).tolist(), strict=True))
            best = sorted(shortlist, key=lambda arm: worth[arm] / np.sqrt(max(prices[arm], EPSILON)))
            shortlist = tuple(sorted(best[-most:]))
        positions = [self.arms.index(arm) for arm in shortlist]
        lattice = vote_lattice(len(shortlist), len(self.labels))
        counted = self.counted if lattice is self.beliefs.lattice else None
        correct = correction(self.human, positions, self.labels)
        beliefs = believe(model.among(positions), lattice, correct, counted)
        return replace(self, model=model, shortlist=shortlist, beliefs=beliefs, anywhere=self)

    def after_reply(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> JointFit:
        """The fit once the student has replied; the same without a student."""
        if self.silent is None:
            return self
        if (label := votes.get(STUDENT)) not in self.labels:
            return self.silent
        ratio = self.sure.grades.log_ratio(STUDENT, label, sure.get(STUDENT))
        beliefs = updated_by_student(self.beliefs, self.shortlist.index(STUDENT), ratio)
        return replace(self, beliefs=beliefs, sure=self.sure.without(STUDENT), silent=None, reply=ratio)

    def updated_by_context(
        self, votes: Mapping[str, str | None], sure: Mapping[str, float], label: str, probability: float
    ) -> float:
        """How much of a label's probability comes from the task's context, in [0, 1).

        It is 0 if the votes alone make the label as probable, and approaches 1 as the context moves its
        log-odds.
        """
        if self.anywhere is None:
            return 0.0
        both = np.array([probability, self.anywhere.probabilities(votes, sure)[label]])
        moved = np.diff(logit(np.clip(both, EPSILON, 1.0 - EPSILON)))[0]
        return float(-np.expm1(-abs(moved)))

    def node(self, votes: Mapping[str, str | None]) -> int:
        """The lattice node of the shortlist's votes (arm → label, ``None`` if it gave none)."""
        row, _ = row_of(votes, self.shortlist, self.labels)
        return self.beliefs.lattice.node_of[row]

    def plan_node(self, votes: Mapping[str, str | None]) -> int:
        """The node of the same votes in :attr:`planned`."""
        row, named = row_of(votes, self.shortlist, self.labels)
        return plan_node(self.beliefs, row, named, self.labels, self.losses)

    def tilt(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> float:
        """How much confidences move the log-odds of the most probable label at the node of the votes."""
        row, named = row_of(votes, self.shortlist, self.labels)
        right = self.beliefs.right[self.beliefs.lattice.node_of[row]].tolist()
        tilts = self.sure.tilts(votes, sure)
        if not named or not tilts:
            return 0.0
        probabilities = dict(zip(named, right, strict=False))
        leader = max(named, key=lambda label: probabilities[label])
        chances = (probabilities[leader], tilted(probabilities, tilts)[leader])
        before, after = (min(max(chance, EPSILON), 1.0 - EPSILON) for chance in chances)
        return math.log(after / (1.0 - after)) - math.log(before / (1.0 - before))

    def probabilities(
        self, votes: Mapping[str, str | None], sure: Mapping[str, float] = _NO_CONFIDENCE
    ) -> dict[str, float]:
        """The probability of each label. Labels without a vote share what is left equally."""
        cast = {arm: vote for arm, vote in votes.items() if vote is not None}
        tilts = self.sure.tilts(votes, sure)
        if cast.keys() <= set(self.shortlist):
            row, named = row_of(votes, self.shortlist, self.labels)
            right = self.beliefs.right[self.beliefs.lattice.node_of[row]]
        else:
            row, named = row_of(votes, self.arms, self.labels)
            right = self.given_all(np.array([row]))[0]
            if self.reply:
                tilts[cast[STUDENT]] = tilts.get(cast[STUDENT], 0.0) + self.reply
        probabilities = dict(zip(named, right.tolist(), strict=False))
        if not named:
            return dict.fromkeys(self.options, 1.0 / len(self.options))
        probabilities = tilted(probabilities, tilts)
        if self.human is not None:
            probabilities = self.human.said(probabilities, cast, self.arms, self.labels)
        if self.rare is not None:
            probabilities = self.rare.mixed(probabilities, cast)
        spread = _over_all(probabilities, self.options)
        return spread if self.conventions is None else self.conventions.said(spread)

    def worths(self, probabilities: Mapping[str, float]) -> Mapping[str, float]:
        """The expected reward of each label as the answer: its probability."""
        return probabilities

    def values(self, probabilities: Mapping[str, float]) -> Mapping[str, float]:
        """What each label is worth as the answer, in right labels; the answer is the best one."""
        return answer_values(probabilities, self.losses)

    def given_all(self, rows: Rows) -> Array:
        """The probability of each number's label, given vote rows of all arms, shape (P, K) → (P, G)."""
        right, _ = self.model.beliefs(rows)
        if self.human is None:
            return right
        return self.human.correct(rows, right, sorted(self.labels) if len(self.labels) == 2 else [])

    def leaders(self, rows: Rows) -> tuple[NDArray[np.int64], Array]:
        """The most probable label by each row of votes, and its probability, by the model of votes alone.

        Args:
            rows: the votes of all arms, as positions among the labels or as vote rows, shape (n, K).

        Returns:
            Shapes (n,): the label's number in the row, −1 where nobody voted; and the probability, 0 there.
        """
        two = len(self.labels) == 2
        numbered = rows if two else renumber(rows)
        right, _ = self.model.beliefs(numbered)
        leads, voted = right.argmax(axis=1), (rows >= 0).any(axis=1)
        labels = leads
        if not two:
            labels = rows[np.arange(len(rows)), (numbered == leads[:, None]).argmax(axis=1)]
        return np.where(voted, labels, -1), np.where(voted, right.max(axis=1), 0.0)

    def effective_votes(self) -> float:
        """The effective number of independent arms (Kish), from their excess agreement."""
        return float(np.delete(tempers(self.excess), self.constant).sum())

    def describe(self) -> dict[str, Any]:
        """The fit as plain JSON, stored with a round's plan."""
        described: dict[str, Any] = {
            "everyone": self.everyone,
            "shortlist": list(self.shortlist),
            "effective_votes": round(self.effective_votes(), _SHOWN),
            "families": [[self.arms[arm] for arm in family] for family in families(self.excess)],
        }
        if isinstance(self.model, TwoCoins):
            described |= {
                "accuracy": dict(zip(self.arms, _shown(self.model.accuracy), strict=True)),
                "difficulty": round(self.model.difficulty, _SHOWN),
            }
        elif isinstance(self.model, Kinds):
            described |= {
                "accuracy": dict(zip(self.arms, _shown(self.model.accuracy), strict=True)),
                "kinds": _shown(self.model.share),
            }
        if self.rare is not None:
            described |= {"rare_labels": [*self.rare.labels]}
        verdicts = {"contradicted": self.contradicted, "only_corrections": self.corrections}
        described |= {verdict: True for verdict, holds in verdicts.items() if holds}
        if self.doubt is not None:
            described |= {"rival_reading": [self.arms[arm] for arm in self.doubt.arms]}
        if self.constant:
            described |= {"constant": [self.arms[arm] for arm in self.constant]}
        if self.earlier:
            described |= {"earlier": {"projects": self.earlier, "rounds": round(self.head_start, 1)}}
        if self.losses:
            described |= {"losses": dict(self.losses)}
        if self.sure.grades.arms:
            described |= {"grades": self.sure.grades.describe()}
        if self.contexts is not None:
            described |= {"contexts": self.contexts.describe()}
        if self.conventions is not None:
            described |= {"conventions": self.conventions.describe()}
        return described if self.human is None else described | {"human": self.human.describe()}

    @classmethod
    def fit(  # noqa: PLR0917 - what a fit is made of
        cls,
        evidence: PatternCounts,
        latest: LatestRounds,
        labels: tuple[str, ...],
        prices: Mapping[str, float],
        grades: Grades = NO_GRADES,
        contexts: LatestContexts = NO_CONTEXTS,
        *,
        rare: bool = True,
        losses: LabelLosses = NO_LOSSES,
        earlier: Earlier = NOTHING_EARLIER,
        explored: PatternCounts = NO_PATTERNS,
    ) -> JointFit:
        """Fit the model of votes, the human terms and the beliefs.

        Args:
            evidence: the vote patterns of past rounds.
            latest: the latest rounds with a human label.
            labels: the label set.
            prices: arm → its price in right labels, to choose the arms that plans ask where arms are many.
            grades: what the arms' confidences are worth.
            contexts: the contexts of rounds that asked all arms.
            rare: whether the model of votes may leave rare labels to :mod:`camvo.joint.rare_labels`.
            losses: what missing each label loses; empty if all labels are worth the same.
            earlier: what earlier projects taught about the arms.
            explored: the vote patterns of rounds that asked all arms, from which to estimate the regret.
        """
        arms, options = tuple(sorted(prices)), labels
        witnesses = tuple([arm for arm in arms if arm != STUDENT])
        labels = labels_of_votes(evidence, witnesses, options) if rare else options
        most = arms_in_plan(labels, losses)
        others_rare = None if labels == options else RareLabels.fit(evidence, witnesses, options, labels)
        if STUDENT not in prices:
            votes = VotesFit.of(evidence, arms, labels, earlier)
            shortlist = _shortlist_of(votes, prices, arms, most)
            fit = _fit(votes, latest, labels, arms, shortlist, grades, others_rare, losses)
            if not losses:
                fit = replace(fit, regret=regret_of_explored(explored, arms, labels, shortlist, earlier))
            if fit.doubt is None:
                return _with_contexts(fit, contexts)
            settled = _settled(votes, fit.doubt, contexts, arms, labels)
            if settled is None:
                return fit
            settled_fit = _fit(settled, latest, labels, arms, shortlist, grades, others_rare, losses)
            return _with_contexts(replace(settled_fit, regret=fit.regret), contexts)
        others = {arm: price for arm, price in prices.items() if arm != STUDENT}
        silent = JointFit.fit(
            evidence,
            latest,
            options,
            others,
            grades,
            contexts,
            rare=rare,
            losses=losses,
            earlier=earlier,
            explored=explored,
        )
        votes = fit_votes_and_student(evidence, arms, labels, earlier)
        if silent.doubt is None:
            votes = replace(votes, doubt=None)
        of_others = VotesFit.of(evidence, silent.arms, labels, earlier)
        fewer = min(MOST_OTHERS, len(silent.shortlist), most - 1 if losses else MOST_OTHERS)
        asked = _shortlist_of(of_others, others, silent.arms, fewer)
        shortlist = tuple(sorted((*asked, STUDENT)))
        fit = _fit(votes, latest, labels, arms, shortlist, grades, others_rare, losses)
        return replace(
            fit, silent=silent, earlier=silent.earlier, head_start=silent.head_start, regret=silent.regret
        )

    @classmethod
    def label_free(
        cls, votes: VotesFit, labels: tuple[str, ...], arms: tuple[str, ...], prices: Mapping[str, float]
    ) -> JointFit:
        """The fit of votes alone, without human labels, confidences, contexts and a student.

        Args:
            votes: the model of votes.
            labels: the label set.
            arms: the arms, sorted by name.
            prices: arm → its price in right labels, to choose the arms that plans ask where arms are many.
        """
        shortlist = _shortlist_of(votes, prices, arms, most_arms(len(labels)))
        return _fit(votes, LatestRounds(), labels, arms, shortlist, NO_GRADES, None)


def _fit(  # noqa: PLR0917 - the parts of one fit
    votes: VotesFit,
    latest: LatestRounds,
    labels: tuple[str, ...],
    arms: tuple[str, ...],
    shortlist: tuple[str, ...],
    grades: Grades,
    rare: RareLabels | None,
    losses: LabelLosses = NO_LOSSES,
) -> JointFit:
    positions = tuple(arms.index(arm) for arm in shortlist)
    corrections = only_corrections(votes, latest, arms, labels)
    latest = LatestRounds() if corrections else latest
    votes, contradicted = as_people_prefer(votes, latest, arms, labels)
    beliefs, human, conventions = _label_free_beliefs(votes, positions, labels), None, None
    if latest.rounds:
        known = _Known(votes.model, beliefs, positions)
        conventions = _conventions(known, votes.rows, latest, arms, labels, grades, rare)
        if conventions is None:
            human = HumanTerms.fit(known.right, latest.rounds, arms, labels, grades)
    if human is not None:
        beliefs = votes.beliefs(positions, human, labels)
    factor = UNTAUGHT if human is None or human.sure is None else human.sure
    sure = SureVotes(grades, factor) if grades.arms else NOT_SURE
    everyone = float(votes.rows.counts.sum())
    # Where some labels are rare, a vote for one of them counts as none in these rows.
    shares = np.ones(len(arms)) if rare else answering(votes.rows)
    voting = dict(zip(arms, shares.tolist(), strict=True))
    return JointFit(
        arms,
        labels,
        everyone,
        votes.model,
        votes.excess,
        human,
        shortlist,
        beliefs,
        voting,
        sure,
        contradicted=contradicted,
        corrections=corrections,
        conventions=conventions,
        rare=rare,
        doubt=votes.doubt,
        constant=votes.constant,
        earlier=votes.earlier,
        head_start=votes.head_start,
        losses=losses,
    )


def _conventions(  # noqa: PLR0917 - the parts of one fit
    known: _Known,
    votes: VoteRows,
    latest: LatestRounds,
    arms: tuple[str, ...],
    labels: tuple[str, ...],
    grades: Grades,
    rare: RareLabels | None,
) -> Conventions | None:
    """What people say where the votes say a label, if it predicts their labels better than human terms."""
    options = labels if rare is None else rare.options
    casts, kept = [], []
    for round_ in latest.rounds:
        cast = {vote.arm: vote.label for vote in round_.votes if vote.label in options}
        if cast and round_.label in options:
            casts.append(cast)
            kept.append(round_)
    if not kept:
        return None
    numbered = [row_of(cast, arms, labels) for cast in casts]
    rows, names = np.array([row for row, _ in numbered]), [named for _, named in numbered]

    def spread(right: Array, terms: HumanTerms | None, among: Sequence[int]) -> Array:
        """The probability of each label in some of the rounds, shape (h, M)."""
        out = np.empty((len(among), len(options)))
        for line, (at, values) in enumerate(zip(among, right.tolist(), strict=True)):
            chances = dict(zip(names[at], values, strict=False))
            if terms is not None:
                chances = terms.said(chances, casts[at], arms, labels)
            if rare is not None:
                chances = rare.mixed(chances, casts[at])
            out[line] = [*_over_all(chances, options).values()]
        return out

    def by_terms(held: NDArray[np.bool_]) -> Array:
        others = [round_ for round_, out in zip(kept, held.tolist(), strict=True) if not out]
        terms = HumanTerms.fit(known.right, others, arms, labels, grades)
        right = known.right(rows[held])
        if terms is not None:
            right = terms.correct(rows[held], right, sorted(labels) if len(labels) == 2 else [])
        return spread(right, terms, np.flatnonzero(held).tolist())

    right = known.right(rows)
    sure = right.max(axis=1) >= weighted_median(
        known.right(votes.rows).max(axis=1), votes.counts + votes.partial
    )
    truth = np.array([options.index(round_.label) for round_ in kept], dtype=np.int64)
    return Conventions.fit(options, spread(right, None, range(len(kept))), truth, by_terms, sure)


def _over_all(probabilities: Mapping[str, float], labels: Sequence[str]) -> dict[str, float]:
    """The probability of every label: those that are not given share what is left equally."""
    rest = max(1.0 - sum(probabilities.values()), 0.0) / max(len(labels) - len(probabilities), 1)
    return {label: probabilities.get(label, rest) for label in labels}


def _settled(
    votes: VotesFit, doubt: Doubt, contexts: LatestContexts, arms: tuple[str, ...], labels: tuple[str, ...]
) -> VotesFit | None:
    """The fit without doubt, if contexts tell which reading of the votes is right."""
    if not isinstance(votes.model, TwoCoins | Kinds):
        return None
    reading = reading_by_contexts(votes.model, doubt.model, contexts, arms, labels)
    return None if reading is None else replace(votes, model=reading, doubt=None)


def _with_contexts(fit: JointFit, contexts: LatestContexts) -> JointFit:
    """The fit with skills by context if they predict votes better."""
    if fit.contradicted or not isinstance(fit.model, TwoCoins | Kinds):
        return fit
    skills = ContextSkills.fit(fit.model, contexts, fit.arms, fit.labels)
    if skills is None:
        return fit
    positions = [fit.arms.index(arm) for arm in fit.shortlist]
    correct = correction(fit.human, positions, fit.labels)
    alone = believe(fit.model.among(positions), fit.beliefs.lattice, correct)
    counted = counts_over_model(fit.beliefs, alone)
    return replace(fit, contexts=skills, counted=counted, regret=None)  # resamples know of no context


@lru_cache(maxsize=32)
def _label_free_beliefs(votes: VotesFit, positions: tuple[int, ...], labels: tuple[str, ...]) -> Beliefs:
    return votes.beliefs(positions, None, labels)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What is known of the label of a vote row: the beliefs of its node, or the model of all arms' votes."""

    model: VoteModel
    beliefs: Beliefs
    positions: Sequence[int]

    def right(self, rows: Rows) -> Array:
        """The probability of each number's label, shape (P, G), given rows of all arms, shape (P, K)."""
        right, _ = self.model.beliefs(rows)
        others = np.delete(rows, self.positions, axis=1)
        short = np.flatnonzero((others < 0).all(axis=1))
        nodes = self.beliefs.lattice.find(rows[short][:, self.positions])
        right[short] = 0.0
        right[short, : self.beliefs.right.shape[1]] = self.beliefs.right[nodes]
        return right


def _shown(values: Array) -> list[Any]:
    """Probabilities as nested lists, with the decimals that are shown."""
    shown: list[Any] = values.round(_SHOWN).tolist()
    return shown


def best_plan(
    fit: JointFit | OrderedFit, prices: Sequence[float], silent: Collection[str] = ()
) -> Worth | GradedWorth:
    """The best plan of whom to ask next, and when to stop.

    Args:
        fit: what votes say.
        prices: the price of each arm of the shortlist, in right labels.
        silent: the arms that were asked and gave no vote.
    """
    prices = prices_without(silent, fit.shortlist, prices)
    if isinstance(fit, OrderedFit) or not fit.sure.grades.arms:
        return plan_by_worth(fit.planned, quick_prices(fit.planned, prices))
    named = sorted(fit.labels) if len(fit.labels) == 2 else []
    return plan_by_graded_worth(fit.planned, prices, fit.sure.by_arm(fit.shortlist, named))
