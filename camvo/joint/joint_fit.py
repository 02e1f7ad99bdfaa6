"""One question's fit: the model of its votes, what human labels add, and the beliefs that plans need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, logit

from camvo.joint.beliefs import Beliefs, Correction, believe, counts_over_model, form_beliefs
from camvo.joint.grades import NO_GRADES, NOT_SURE, UNTAUGHT, Grades, SureVotes, tilted
from camvo.joint.human_terms import HumanTerms
from camvo.joint.lattice import most_arms, vote_lattice
from camvo.joint.models import (
    MOST_OTHERS,
    Kinds,
    TwoCoins,
    VoteModel,
    fit_vote_model,
    others_say,
    with_taught_arm,
)
from camvo.joint.plans import GradedWorth, Worth, plan_by_graded_worth, plan_by_worth, rounded
from camvo.joint.skills import ContextSkills
from camvo.joint.votes import Rows, VoteRows, excess_agreement, families, renumber, row_of, tempers
from camvo.numerics.small import EPSILON, is_known
from camvo.state.exploration import NO_CONTEXTS, UNASKED, LatestContexts, PatternCounts
from camvo.state.kept_rounds import LatestRounds
from camvo.student.taught_texts import STUDENT
from camvo.typing import Array


@lru_cache(maxsize=32)
def _updated_by_student(beliefs: Beliefs, position: int, log_ratio: float) -> Beliefs:
    """The beliefs once the student has voted, and has said how sure it is.

    Nodes at which it has not voted keep their beliefs about labels. No task reaches them any more.
    """
    number = beliefs.lattice.rows[:, position]
    (voted,) = np.nonzero(number >= 0)
    odds = np.ones_like(beliefs.right)
    odds[voted, number[voted]] = np.exp(log_ratio)
    # How probable this confidence is at each node, relative to an uninformative one.
    likely: Array = 1.0 + (beliefs.right * (odds - 1.0)).sum(axis=1)
    votes = []
    for level, level_votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        chances = [told * likely[step.following] for step, told in zip(level, level_votes, strict=True)]
        votes.append(tuple([chance / chance.sum(axis=0) for chance in chances]))
    return Beliefs(beliefs.lattice, beliefs.right * odds / likely[:, None], tuple(votes))


_PARTIAL_ROUNDS: Final = 300.0
"""Rounds that stopped early count at most as this many rounds. They improve the first fits, but if they
outweigh the others, the model drifts: it confirms the labels at which it stopped."""


@dataclass(frozen=True, slots=True, eq=False)
class VotesFit:
    """The part of the fit that human labels do not change.

    With a student, ``witnesses`` is the model of the other arms' votes, and ``taught`` its position.
    """

    rows: VoteRows
    model: VoteModel
    excess: Array
    witnesses: VoteModel | None = None
    taught: int | None = None

    @property
    def arms(self) -> int:
        """K."""
        return self.rows.rows.shape[1]

    def reference(self, positions: Sequence[int]) -> Callable[[Rows], Array] | None:
        """What the votes of the witnesses among some arms make probable; ``None`` if all are witnesses."""
        if self.witnesses is None or self.taught is None:
            return None
        model, taught, among = self.witnesses, self.taught, [*positions]

        def reference(rows: Rows) -> Array:
            whole = np.full((len(rows), self.arms), UNASKED, dtype=np.int64)
            whole[:, among] = rows
            return others_say(model, whole, taught)[:, : max(len(among), 2)]

        return reference

    @classmethod
    @lru_cache(maxsize=32)
    def of(cls, evidence: PatternCounts, arms: tuple[str, ...], labels: int) -> VotesFit:
        """Fit the model of votes; cached, because human labels and prices change more often than votes."""
        return VotesFit.of_rows(VoteRows.of(evidence.patterns, arms, labels), labels)

    @classmethod
    def of_rows(cls, rows: VoteRows, labels: int) -> VotesFit:
        """Fit the model of votes on M labels to vote rows."""
        partial = rows.partial.sum()
        weights = rows.counts + rows.partial * min(1.0, _PARTIAL_ROUNDS / max(partial, 1.0))
        excess = excess_agreement(rows, labels)
        return cls(rows, fit_vote_model(rows.rows, weights, labels, tempers(excess)), excess)

    def beliefs(self, positions: Sequence[int], human: HumanTerms | None, labels: Sequence[str]) -> Beliefs:
        """The beliefs about the votes of some arms, by the model and the rounds that asked all arms."""
        among, rows = _ModelAmong(self.model, positions, self.arms), self.rows.rows[:, positions]
        correct = _correction(human, positions, labels)
        reference = self.reference(positions)
        return form_beliefs(among, replace(self.rows, rows=rows), len(labels), correct, reference)


@lru_cache(maxsize=32)
def _fit_votes_and_student(evidence: PatternCounts, arms: tuple[str, ...], labels: int) -> VotesFit:
    """The same model with the student added (:mod:`camvo.joint.models`)."""
    taught = arms.index(STUDENT)
    others = VotesFit.of(evidence, tuple([arm for arm in arms if arm != STUDENT]), labels)
    rows = VoteRows.of(evidence.patterns, arms, labels)
    temper = float(tempers(excess_agreement(rows, labels))[taught])
    model = with_taught_arm(others.model, rows, taught, temper)
    excess = np.insert(np.insert(others.excess, taught, 0.0, axis=0), taught, 0.0, axis=1)
    return VotesFit(rows, model, excess, others.model, taught)


@dataclass(frozen=True, slots=True, eq=False)
class _ModelAmong:
    """A model of votes, for rows of some of its arms."""

    model: VoteModel
    positions: Sequence[int]
    arms: int

    @property
    def skill(self) -> Array:
        """The mean log-odds of each arm's vote."""
        return np.asarray(self.model.skill[self.positions], dtype=np.float64)

    def beliefs(self, rows: Rows) -> tuple[Array, Array]:
        """See :meth:`VoteModel.beliefs`; the rows hold these arms only."""
        whole = np.full((len(rows), self.arms), UNASKED, dtype=np.int64)
        whole[:, self.positions] = rows
        right, evidence = self.model.beliefs(whole)
        return right[:, : max(rows.shape[1], 2)], evidence


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
            gains[position] = float(counts @ right.max(axis=1)) / total - prices[arm]
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
        labels: the label set.
        everyone: the number of rounds that asked all arms.
        model: the model of votes of all arms.
        excess: the excess agreement of each pair of arms, shape (K, K).
        human: what human labels add; ``None`` without human labels.
        shortlist: the arms that plans ask, sorted by name; all of them unless they are many.
        beliefs: the beliefs at the nodes of the shortlist's lattice.
        sure: what the arms' confidences add.
        silent: the fit for rounds in which the student says nothing; ``None`` without a student, or if its
            reply is known.
        reply: the log ratio of the student's confidence, if it is a part of the beliefs; otherwise 0.
        contexts: skills by context; ``None`` if they do not predict votes better.
        counted: what the counted rounds change of the model's beliefs, for tasks whose skills depend on their
            context; ``None`` without skills by context.
        anywhere: for the fit of a task whose context counts, the fit for a task of any context.
        contradicted: whether human labels prefer the plain majority, so that all arms count alike.
    """

    arms: tuple[str, ...]
    labels: tuple[str, ...]
    everyone: float
    model: VoteModel
    excess: Array
    human: HumanTerms | None
    shortlist: tuple[str, ...]
    beliefs: Beliefs
    sure: SureVotes = NOT_SURE
    silent: JointFit | None = None
    reply: float = 0.0
    contexts: ContextSkills | None = None
    counted: Beliefs | None = None
    anywhere: JointFit | None = None
    contradicted: bool = False

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
        model, most = self.contexts.model(context), most_arms(len(self.labels), _TASK_NODES)
        shortlist = self.shortlist
        if len(shortlist) > most:
            worth = dict(zip(self.arms, np.abs(model.skill).tolist(), strict=True))
            best = sorted(shortlist, key=lambda arm: worth[arm] / np.sqrt(max(prices[arm], EPSILON)))
            shortlist = tuple(sorted(best[-most:]))
        positions = [self.arms.index(arm) for arm in shortlist]
        lattice = vote_lattice(len(shortlist), len(self.labels))
        counted = self.counted if lattice is self.beliefs.lattice else None
        correct = _correction(self.human, positions, self.labels)
        beliefs = believe(model.among(positions), lattice, correct, counted)
        return replace(self, model=model, shortlist=shortlist, beliefs=beliefs, anywhere=self)

    def after_reply(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> JointFit:
        """The fit once the student has replied; the same without a student."""
        if self.silent is None:
            return self
        if (label := votes.get(STUDENT)) is None:
            return self.silent
        ratio = self.sure.grades.log_ratio(STUDENT, label, sure.get(STUDENT))
        beliefs = _updated_by_student(self.beliefs, self.shortlist.index(STUDENT), ratio)
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
            return dict.fromkeys(self.labels, 1.0 / len(self.labels))
        probabilities = tilted(probabilities, tilts)
        if self.human is not None:
            terms = self.human.left_to_add(cast, self.arms, named=len(self.labels) == 2)
            others = len(probabilities) < len(self.labels)
            probabilities = self.human.calibrate(probabilities, terms, others=others)
        rest = max(1.0 - sum(probabilities.values()), 0.0) / max(len(self.labels) - len(named), 1)
        return {label: probabilities.get(label, rest) for label in self.labels}

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
        """The effective number of independent arms among the K arms (Kish), from their excess agreement."""
        return float(tempers(self.excess).sum())

    def describe(self) -> dict[str, Any]:
        """The fit as plain JSON, stored with a round's plan."""
        described: dict[str, Any] = {
            "everyone": self.everyone,
            "shortlist": list(self.shortlist),
            "effective_votes": round(self.effective_votes(), _SHOWN),
            "families": [[self.arms[arm] for arm in family] for family in families(self.excess)],
        }
        if isinstance(self.model, TwoCoins):
            described |= {"accuracy": dict(zip(self.arms, _shown(self.model.accuracy), strict=True))}
        elif isinstance(self.model, Kinds):
            described |= {
                "accuracy": dict(zip(self.arms, _shown(self.model.accuracy), strict=True)),
                "kinds": _shown(self.model.share),
            }
        if self.contradicted:
            described |= {"contradicted": True}
        if self.sure.grades.arms:
            described |= {"grades": self.sure.grades.describe()}
        if self.contexts is not None:
            described |= {"contexts": self.contexts.describe()}
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
    ) -> JointFit:
        """Fit the model of votes, the human terms and the beliefs.

        Args:
            evidence: the vote patterns of past rounds.
            latest: the latest rounds with a human label.
            labels: the label set.
            prices: arm → its price in right labels, to choose the arms that plans ask where arms are many.
            grades: what the arms' confidences are worth.
            contexts: the contexts of rounds that asked all arms.
        """
        arms = tuple(sorted(prices))
        if STUDENT not in prices:
            votes = VotesFit.of(evidence, arms, len(labels))
            shortlist = _shortlist_of(votes, prices, arms, most_arms(len(labels)))
            return _with_contexts(_fit(votes, latest, labels, arms, shortlist, grades), contexts)
        others = {arm: price for arm, price in prices.items() if arm != STUDENT}
        silent = JointFit.fit(evidence, latest, labels, others, grades, contexts)
        votes = _fit_votes_and_student(evidence, arms, len(labels))
        of_others = VotesFit.of(evidence, silent.arms, len(labels))
        asked = _shortlist_of(of_others, others, silent.arms, min(MOST_OTHERS, len(silent.shortlist)))
        shortlist = tuple(sorted((*asked, STUDENT)))
        return replace(_fit(votes, latest, labels, arms, shortlist, grades), silent=silent)

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
        return _fit(votes, LatestRounds(), labels, arms, shortlist, NO_GRADES)


def _fit(  # noqa: PLR0917 - the parts of one fit
    votes: VotesFit,
    latest: LatestRounds,
    labels: tuple[str, ...],
    arms: tuple[str, ...],
    shortlist: tuple[str, ...],
    grades: Grades,
) -> JointFit:
    positions = tuple(arms.index(arm) for arm in shortlist)
    contradicted = _people_prefer_majority(votes.model, latest, arms, labels)
    if contradicted:
        votes = _counted_alike(votes)
    beliefs, human = _label_free_beliefs(votes, positions, labels), None
    if latest.rounds:
        known = _Known(votes.model, beliefs, positions)
        human = HumanTerms.fit(known.right, latest.rounds, arms, labels, grades)
    if human is not None:
        beliefs = votes.beliefs(positions, human, labels)
    factor = UNTAUGHT if human is None or human.sure is None else human.sure
    sure = SureVotes(grades, factor) if grades.arms else NOT_SURE
    everyone = float(votes.rows.counts.sum())
    return JointFit(
        arms,
        labels,
        everyone,
        votes.model,
        votes.excess,
        human,
        shortlist,
        beliefs,
        sure,
        contradicted=contradicted,
    )


def _with_contexts(fit: JointFit, contexts: LatestContexts) -> JointFit:
    """The fit with skills by context if they predict votes better."""
    if fit.contradicted or not isinstance(fit.model, TwoCoins | Kinds):
        return fit
    skills = ContextSkills.fit(fit.model, contexts, fit.arms, len(fit.labels))
    if skills is None or not skills.useful:
        return fit
    positions = [fit.arms.index(arm) for arm in fit.shortlist]
    correct = _correction(fit.human, positions, fit.labels)
    alone = believe(fit.model.among(positions), fit.beliefs.lattice, correct)
    return replace(fit, contexts=skills, counted=counts_over_model(fit.beliefs, alone))


_ALIKE: Final = 0.75
"""The accuracy of each arm on two labels where all count alike."""

_CONTRADICTION: Final = 0.05
"""How improbable the majority's lead over the model of votes must be, if both were equally good."""


def _people_prefer_majority(
    model: VoteModel, latest: LatestRounds, arms: tuple[str, ...], labels: tuple[str, ...]
) -> bool:
    """Whether human labels agree with the plain majority rather than with the model, where these differ."""
    rows, truth = [], []
    for kept in latest.rounds:
        row, named = row_of({vote.arm: vote.label for vote in kept.votes}, arms, labels)
        if named and kept.label in named:
            rows.append(row)
            truth.append(named.index(kept.label))
    if not rows:
        return False
    votes, right = np.array(rows), np.array(truth)
    numbers = np.arange(max(len(arms), 2))
    voices = (votes[:, :, None] == numbers).sum(axis=1)
    clear = (voices == voices.max(axis=1, keepdims=True)).sum(axis=1) == 1
    leads, most = model.beliefs(votes)[0].argmax(axis=1), voices.argmax(axis=1)
    ours = int((clear & (leads == right) & (most != right)).sum())
    theirs = int((clear & (most == right) & (leads != right)).sum())
    return theirs > ours and float(bdtr(ours, ours + theirs, 0.5)) < _CONTRADICTION


@lru_cache(maxsize=32)
def _counted_alike(votes: VotesFit) -> VotesFit:
    """The same fit with a model in which all arms have the same skill, so that their majority decides."""
    model = votes.model
    if not isinstance(model, TwoCoins | Kinds):
        return votes
    skill = model.accuracy.mean(axis=0) if isinstance(model, Kinds) else np.full(2, _ALIKE)
    alike = np.tile(skill, (votes.arms, 1))
    if isinstance(model, TwoCoins):
        model = replace(model, share=np.full(2, 0.5))
    temper = np.ones(votes.arms)
    if votes.taught is not None:
        temper[votes.taught] = model.temper[votes.taught]
    return replace(votes, model=replace(model, accuracy=alike, temper=temper))


@lru_cache(maxsize=32)
def _label_free_beliefs(votes: VotesFit, positions: tuple[int, ...], labels: tuple[str, ...]) -> Beliefs:
    return votes.beliefs(positions, None, labels)


def _correction(
    human: HumanTerms | None, positions: Sequence[int], labels: Sequence[str]
) -> Correction | None:
    """The correction by human labels of the beliefs about the votes of some arms."""
    if human is None:
        return None
    terms = replace(human, arms=human.arms[[*positions]])
    named = sorted(labels) if len(labels) == 2 else []
    return lambda rows, right: terms.correct(rows, right, named)


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


_QUICK_NODES: Final = 5000
"""With more nodes, as with seven models and a student, a plan takes some 5 ms, and prices are rounded."""


def best_plan(fit: JointFit, prices: tuple[float, ...]) -> Worth | GradedWorth:
    """The best plan of whom to ask next, and when to stop.

    Args:
        fit: what votes say.
        prices: the price of each arm of the shortlist, in right labels.
    """
    if not fit.sure.grades.arms:
        quick = len(fit.beliefs.right) <= _QUICK_NODES
        return plan_by_worth(fit.beliefs, prices if quick else rounded(prices))
    named = sorted(fit.labels) if len(fit.labels) == 2 else []
    return plan_by_graded_worth(fit.beliefs, prices, fit.sure.by_arm(fit.shortlist, named))
