"""The model of votes on one question, and the readings of the votes that human labels may prefer to it.

Some arms may agree with one another far more than the model of votes explains, because they follow another
reading of the task, or one another. If their reading explains all votes nearly as well as the model's, the
votes say which labels differ but not which are right: human labels or contexts decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import expit, logit

from camvo.joint.beliefs import Beliefs, Correction, form_beliefs
from camvo.joint.conventions import prefers
from camvo.joint.human_terms import HumanTerms
from camvo.joint.models import Kinds, VoteModel, fit_vote_model, model_by, with_taught_arm
from camvo.joint.two_coins import TwoCoins, with_difficulty
from camvo.joint.votes import (
    Rows,
    VoteRows,
    agreement,
    closest_group,
    confirmed_excess,
    excess_agreement,
    possible_excess,
    renumber,
    row_of,
    tempers,
)
from camvo.numerics.small import EPSILON, upper_bound
from camvo.state.contribution import LatestRounds
from camvo.state.earlier import LEAST_ROUNDS, NOTHING_EARLIER, Earlier, Lesson, SkillPrior
from camvo.state.exploration import UNASKED, PatternCounts
from camvo.student import STUDENT
from camvo.typing import Array

_FEWEST_OF_DOUBT: Final = 30
"""As soon as families are looked for: the first fits are the ones that follow a wrong reading most often."""
_TOGETHER_OF_TWO, _TOGETHER = 0.15, 0.03
"""The least corrected agreement of a group beyond the model's, and one over the root of the rounds.

With more labels, kinds of items explain most agreement of arms that err on the same items.
"""

_LEAST_APART: Final = 0.1
"""The least share of rounds that the two readings label differently."""

_BEARABLE_OF_TWO, _BEARABLE, _ERRORS = 0.35, 0.3, 1.0
"""By how much the model's reading must be more likely, in nats a round that the two label differently, with
a standard error to spare."""


@dataclass(frozen=True, slots=True, eq=False)
class Doubt:
    """A reading of the votes that is nearly as likely as the model's.

    Attributes:
        arms: the positions of the arms that follow it.
        model: the model of the votes in which it is right.
    """

    arms: tuple[int, ...]
    model: TwoCoins | Kinds


def _doubt_of(model: TwoCoins | Kinds, votes: VoteRows, labels: int) -> Doubt | None:
    """The reading of the arms that agree most beyond the model, if it is nearly as likely."""
    counted = votes.counts > 0.0
    rows, counts = votes.rows[counted], votes.counts[counted]
    rounds = float(counts.sum())
    if rounds < _FEWEST_OF_DOUBT or rows.shape[1] < 3 or labels < 2:
        return None
    beyond = (agreement(rows, counts) - model.agreement) * labels / (labels - 1)
    group, together = closest_group(beyond)
    least, bearable = (_TOGETHER_OF_TWO, _BEARABLE_OF_TWO) if labels == 2 else (_TOGETHER, _BEARABLE)
    if len(group) < 2 or together < least + 1.0 / np.sqrt(rounds):
        return None
    ours, theirs = model.beliefs(rows)[0], _reading(group, rows, counts, labels, model.temper)
    apart = float(counts @ (ours.argmax(axis=1) != theirs.argmax(axis=1))) / rounds
    if apart < _LEAST_APART:
        return None
    certain, rival = (model_by(belief, rows, counts, labels, model.temper) for belief in (ours, theirs))
    leads = certain.beliefs(rows)[1] - rival.beliefs(rows)[1]
    lead, error = float(counts @ leads) / rounds, float(np.sqrt(counts @ leads**2)) / rounds
    return Doubt(tuple(group), rival) if lead - _ERRORS * error < bearable * apart else None


def _reading(group: list[int], rows: Rows, counts: Array, labels: int, temper: Array) -> Array:
    """The probability of each number's label by the votes of a group alone, shape (P, G)."""
    among = rows[:, group]
    numbered = among if labels == 2 else renumber(among)
    right, _ = fit_vote_model(numbered, counts, labels, temper[group]).beliefs(numbered)
    belief = np.zeros((len(rows), max(min(rows.shape[1], labels), 2)))
    if labels == 2:
        return right
    for number, label in zip(numbered.T, among.T, strict=True):
        voted = np.flatnonzero(label >= 0)
        belief[voted, label[voted]] = right[voted, number[voted]]
    return belief


_PARTIAL_ROUNDS: Final = 300.0
"""Rounds that stopped early count at most as this many rounds. They improve the first fits, but if they
outweigh the others, the model drifts: it confirms the labels at which it stopped."""


@dataclass(frozen=True, slots=True, eq=False)
class VotesFit:
    """The model of votes, without human labels.

    ``possible`` is the excess agreement with families that the other arms do not confirm; ``excess`` is what
    the model counts. With a student, ``witnesses`` is the fit to the other arms' votes, and ``taught`` its
    position. ``doubt`` is a reading of the votes that is nearly as likely as the model's. The votes of
    ``constant`` arms have no weight in either. What ``earlier`` projects taught, so many of them, counts as
    ``head_start`` rounds.
    """

    rows: VoteRows
    model: VoteModel
    excess: Array
    possible: Array
    witnesses: VotesFit | None = None
    taught: int | None = None
    doubt: Doubt | None = None
    constant: tuple[int, ...] = ()
    earlier: int = 0
    head_start: float = 0.0

    @property
    def arms(self) -> int:
        """K."""
        return self.rows.rows.shape[1]

    def reference(self, positions: Sequence[int]) -> Callable[[Rows], Array] | None:
        """What the votes of the witnesses among some arms make probable; ``None`` if all are witnesses."""
        if self.witnesses is None or self.taught is None:
            return None
        model, taught, among = self.witnesses.model, self.taught, [*positions]

        def reference(rows: Rows) -> Array:
            whole = np.full((len(rows), self.arms), UNASKED, dtype=np.int64)
            whole[:, among] = rows
            return _others_say(model, whole, taught)[:, : max(len(among), 2)]

        return reference

    @classmethod
    @lru_cache(maxsize=32)
    def of(
        cls,
        evidence: PatternCounts,
        arms: tuple[str, ...],
        labels: tuple[str, ...],
        earlier: Earlier = NOTHING_EARLIER,
    ) -> VotesFit:
        """Fit the model of votes; cached, because human labels and prices change more often than votes."""
        rows, prior = VoteRows.of(evidence.patterns, arms, labels), earlier.prior(arms)
        fit = VotesFit.of_rows(rows, len(labels), constant_arms(evidence, arms, labels), prior)
        return fit if prior is None else replace(fit, earlier=prior.projects)

    @classmethod
    def of_rows(
        cls, rows: VoteRows, labels: int, constant: tuple[int, ...] = (), prior: SkillPrior | None = None
    ) -> VotesFit:
        """Fit the model of votes on M labels to vote rows; the votes of constant arms have no weight."""
        if constant:
            others = [arm for arm in range(rows.rows.shape[1]) if arm not in constant]
            of_others = prior and prior.among(others)
            fit = cls.of_rows(_without(rows, constant, labels), labels, prior=of_others)
            return _with_constant(fit, rows, constant)
        possible = possible_excess(rows, labels)
        excess, unclear = confirmed_excess(possible, rows, labels)
        model = _fit_model(rows, labels, excess)
        head_start = 0.0
        if prior is not None:
            by, head_start = prior.beside(model.skill, float(rows.counts.sum()))
            model = _moved(model, by)
        doubt = _doubt_of(model, rows, labels)
        if doubt is None and unclear:
            doubt = Doubt(unclear, _fit_model(rows, labels, possible))
        if doubt is None:
            model = _with_difficulty(model, rows)
        head_start = 0.0 if doubt is not None else head_start
        return cls(rows, model, excess, possible, doubt=doubt, head_start=head_start)

    def beliefs(self, positions: Sequence[int], human: HumanTerms | None, labels: Sequence[str]) -> Beliefs:
        """The beliefs about the votes of some arms, by the model and the rounds that asked all arms."""
        among, rows = _ModelAmong(self.model, positions, self.arms), self.rows.rows[:, positions]
        correct = correction(human, positions, labels)
        reference = self.reference(positions)
        return form_beliefs(among, replace(self.rows, rows=rows), len(labels), correct, reference)


def _fit_model(rows: VoteRows, labels: int, excess: Array) -> TwoCoins | Kinds:
    return fit_vote_model(rows.rows, _weights(rows), labels, tempers(excess))


def _with_difficulty(model: TwoCoins | Kinds, rows: VoteRows) -> TwoCoins | Kinds:
    """The model in which items differ in difficulty; kinds of items do that already."""
    return with_difficulty(model, rows.rows, _weights(rows)) if isinstance(model, TwoCoins) else model


def _weights(rows: VoteRows) -> Array:
    """The weight of each row in a fit."""
    return rows.counts + rows.partial * min(1.0, _PARTIAL_ROUNDS / max(float(rows.partial.sum()), 1.0))


def _moved(model: TwoCoins | Kinds, by: Array) -> TwoCoins | Kinds:
    """The model with other log-odds of being right.

    Earlier projects have no part in the fit itself: a model that believes an arm finds reasons to.
    """
    return replace(model, accuracy=expit(logit(model.accuracy) + by[:, None]))


def _without(rows: VoteRows, arms: Sequence[int], labels: int) -> VoteRows:
    """The votes of the other arms."""
    others = np.delete(rows.rows, arms, axis=1)
    return replace(rows, rows=others if labels == 2 else renumber(others))


def _with_constant(others: VotesFit, rows: VoteRows, constant: tuple[int, ...]) -> VotesFit:
    """The fit to the others' votes, and the constant arms at these positions among all."""
    fit = others
    for added, arm in enumerate(constant):
        later = constant[added + 1 :]
        fit = _with_arm(fit, replace(rows, rows=np.delete(rows.rows, later, axis=1)), arm, 0.0)
    return replace(fit, constant=constant)


def _with_arm(others: VotesFit, rows: VoteRows, arm: int, temper: float) -> VotesFit:
    """The fit to the others' votes, and one more arm, which teaches nothing about them."""
    excess, possible = (
        np.insert(np.insert(among, arm, 0.0, axis=0), arm, 0.0, axis=1)
        for among in (others.excess, others.possible)
    )
    model, doubt = with_taught_arm(others.model, rows, arm, temper), others.doubt
    if doubt is not None:
        taught = with_taught_arm(doubt.model, rows, arm, temper)
        doubt = replace(doubt, arms=_shifted(doubt.arms, arm), model=taught)
    return VotesFit(rows, model, excess, possible, doubt=doubt, constant=_shifted(others.constant, arm))


def _shifted(arms: Sequence[int], by: int) -> tuple[int, ...]:
    """The positions of arms once another one has been put before that position."""
    return tuple([arm + (arm >= by) for arm in arms])


@lru_cache(maxsize=32)
def fit_votes_and_student(
    evidence: PatternCounts,
    arms: tuple[str, ...],
    labels: tuple[str, ...],
    earlier: Earlier = NOTHING_EARLIER,
) -> VotesFit:
    """The same model with the student added (:mod:`camvo.joint.models`)."""
    others = VotesFit.of(evidence, tuple([arm for arm in arms if arm != STUDENT]), labels, earlier)
    rows = VoteRows.of(evidence.patterns, arms, labels)
    return _with_student(others, rows, arms.index(STUDENT), len(labels))


def _with_student(others: VotesFit, rows: VoteRows, taught: int, labels: int) -> VotesFit:
    temper = float(tempers(excess_agreement(rows, labels))[taught])
    return replace(
        _with_arm(others, rows, taught, temper), witnesses=others, taught=taught, earlier=others.earlier
    )


_FEWEST_ROUNDS: Final = 30
_FEWEST_ARMS: Final = 3

_SAME: Final = 0.9
"""The least share of its votes that a constant arm gives to one label."""

_OTHERWISE: Final = 0.15
"""The least share of rounds in which the others' plurality is another label: else the tasks are alike."""

_INFORMATION: Final = 0.02
"""The most that its votes may say about the others' plurality, as a share of that label's entropy."""


@lru_cache(maxsize=64)
def constant_arms(evidence: PatternCounts, arms: tuple[str, ...], labels: tuple[str, ...]) -> tuple[int, ...]:
    """The positions of the arms that nearly always say one label, whatever the others say.

    Where votes do not show which label an arm leans to, it would pass for one that is right as often as its
    label is, and two of them would confirm each other wherever the others are split.

    Only rounds that asked all arms count, and only if their patterns name the labels. An arm that seldom
    says another label, but says it where the others do, is not constant: these votes tell much.
    """
    votes = VoteRows.of(evidence.patterns, arms, labels, ordered=True)
    if len(arms) < _FEWEST_ARMS or votes.counts.sum() < _FEWEST_ROUNDS:
        return ()
    if not (alike := [arm for arm in range(len(arms)) if _says_one_label(votes, arm, len(labels))]):
        return ()
    cast = np.stack([votes.rows == label for label in range(len(labels))], axis=2).astype(np.float64)
    found = [arm for arm in alike if _is_constant(cast, votes.counts, arm)]
    return tuple(found) if len(arms) - len(found) > 1 else ()


def _says_one_label(votes: VoteRows, arm: int, labels: int) -> bool:
    """Whether an arm gives nearly all its votes to one label."""
    voted = votes.rows[:, arm] >= 0
    said = np.bincount(votes.rows[voted, arm], votes.counts[voted], minlength=labels)
    return bool(said.max() >= _SAME * said.sum())


def _is_constant(cast: Array, counts: Array, arm: int) -> bool:
    """Whether an arm is constant, given which label each arm votes for in each row, shape (P, K, M)."""
    said = cast[:, arm]
    others = cast.sum(axis=1) - said
    leads = (others == others.max(axis=1, keepdims=True)) & (others > 0.0)
    plurality = leads / np.maximum(leads.sum(axis=1, keepdims=True), 1)
    both = (said * counts[:, None]).T @ plurality
    rounds = float(both.sum())
    if rounds < _FEWEST_ROUNDS:
        return False
    joint = both / rounds
    ours, theirs = joint.sum(axis=1), joint.sum(axis=0)
    label = int(ours.argmax())
    if ours[label] < _SAME or 1.0 - theirs[label] < _OTHERWISE:
        return False
    information = _entropy(ours) + _entropy(theirs) - _entropy(joint.ravel())
    by_chance = ((ours > 0.0).sum() - 1) * ((theirs > 0.0).sum() - 1) / (2.0 * rounds)
    return bool(information - by_chance < _INFORMATION * _entropy(theirs))


def _entropy(shares: Array) -> float:
    return float(-(shares * np.log(np.maximum(shares, EPSILON))).sum())


@lru_cache(maxsize=32)
def _with_possible_families(votes: VotesFit, labels: int) -> VotesFit:
    """The same fit with the families that the other arms do not confirm."""
    if votes.witnesses is not None and votes.taught is not None:
        others = _with_possible_families(votes.witnesses, labels)
        return _with_student(others, votes.rows, votes.taught, labels)
    if votes.constant:
        rows, possible = (
            _without(votes.rows, votes.constant, labels),
            np.delete(np.delete(votes.possible, votes.constant, axis=0), votes.constant, axis=1),
        )
        model = _with_difficulty(_fit_model(rows, labels, possible), rows)
        others = VotesFit(rows, model, possible, possible)
        return _with_constant(others, votes.rows, votes.constant)
    model = _with_difficulty(_fit_model(votes.rows, labels, votes.possible), votes.rows)
    return replace(votes, model=model, excess=votes.possible)


def lesson_of(
    project: str, evidence: PatternCounts, arms: tuple[str, ...], labels: tuple[str, ...]
) -> Lesson | None:
    """What a project's own votes say of its arms; ``None`` if they are few or do not say whom to believe.

    Neither earlier projects nor human labels have a part in it.
    """
    votes = VotesFit.of(evidence, arms, labels, NOTHING_EARLIER)
    rounds = float(votes.rows.counts.sum())
    known = [arm for arm in range(len(arms)) if arm not in votes.constant]
    if votes.doubt is not None or rounds < LEAST_ROUNDS or len(known) < _FEWEST_ARMS:
        return None
    among = _without(votes.rows, votes.constant, len(labels)) if votes.constant else votes.rows
    skill = _fit_model(among, len(labels), votes.excess[np.ix_(known, known)]).skill
    named = zip([arms[arm] for arm in known], skill.round(4).tolist(), strict=True)
    return Lesson(project, tuple(named), rounds)


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


_ALIKE: Final = 0.75
"""The accuracy of each arm on two labels where all count alike."""

_CONTRADICTION: Final = 0.05
"""How improbable the lead of another reading of the votes must be, if both were equally good."""

_UNDECIDED: Final = 0.2
"""The same where the votes themselves do not tell which reading is right."""

_NO_VOTE: Final = -2
"""The number of a human label that no arm voted for."""

_FEW_OF_TWO: Final = 0.5
_FEW: Final = 0.25
"""Predictions of two labels, or of more, that are right on fewer of the labelled tasks contradict people."""

_HARDLY: Final = 0.15
"""Right on fewer of them, they contradict people even if another reading, or an arm, does not."""

_SURE: Final = 0.99
"""The confidence in that share: seven contradicted labels of two, or 17 of more labels, show it."""


def as_people_prefer(
    votes: VotesFit, latest: LatestRounds, arms: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[VotesFit, bool]:
    """The reading of the votes that human labels prefer, and whether it is that all arms count alike.

    The label-free reading is kept unless people agree with another one where the two differ: first with
    families that the other arms do not confirm, then with the plain majority. The label-free reading is the
    plain majority where the votes do not tell which arms to believe; then people may prefer either reading.
    """
    rows, right = _labelled(latest, arms, labels)
    rows, right = rows[right != _NO_VOTE], right[right != _NO_VOTE]
    if votes.doubt is not None:
        alike = _counted_alike(votes)
        readings = [replace(votes, model=model, doubt=None) for model in (votes.model, votes.doubt.model)]
        best = max(readings, key=lambda reading: int((_leads(reading, rows) == right).sum()))
        if not prefers(right, _leads(alike, rows), _leads(best, rows), _UNDECIDED):
            return alike, False
        votes = best
    if not len(rows):
        return votes, False
    ours = _leads(votes, rows)
    if (votes.possible != votes.excess).any():
        related = _with_possible_families(votes, len(labels))
        theirs = _leads(related, rows)
        if prefers(right, ours, theirs, _CONTRADICTION):
            votes, ours = related, theirs
    numbers = np.arange(max(len(arms), 2))
    voices = (np.delete(rows, votes.constant, axis=1)[:, :, None] == numbers).sum(axis=1)
    clear = (voices == voices.max(axis=1, keepdims=True)).sum(axis=1) == 1
    if prefers(right[clear], ours[clear], voices.argmax(axis=1)[clear], _CONTRADICTION):
        return _counted_alike(votes), True
    return votes, False


def only_corrections(
    votes: VotesFit, latest: LatestRounds, arms: tuple[str, ...], labels: tuple[str, ...]
) -> bool:
    """Whether human labels contradict the votes nearly always, whichever way these are read.

    People who label only wrong predictions give such labels. So would models that are worse than a coin where
    there are two labels, and right on less than a quarter of the tasks where there are more; that is rarer.
    """
    rows, right = _labelled(latest, arms, labels)
    voted = (rows >= 0).any(axis=1)
    rows, right = rows[voted], right[voted]
    if not len(rows):
        return False
    alike = _counted_alike(votes)
    shown = votes if votes.doubt is None else alike
    few = _FEW_OF_TWO if len(labels) == 2 else _FEW
    most = _most_right(shown, rows, right)
    if most < _HARDLY or most >= few:
        return most < _HARDLY
    others = [votes, alike] if votes.doubt is None else [votes, replace(votes, model=votes.doubt.model)]
    cast = rows >= 0
    wrong = (cast & (rows != right[:, None])).sum(axis=0)
    one_is_right = upper_bound(wrong, cast.sum(axis=0), _SURE).min() < 0.5
    return not one_is_right and max(_most_right(other, rows, right) for other in others) < 0.5


def _most_right(votes: VotesFit, rows: Rows, right: Rows) -> float:
    """The upper bound of the share of labelled tasks on which a reading of the votes is right."""
    return float(upper_bound((_leads(votes, rows) == right).sum(), len(rows), _SURE))


def _leads(votes: VotesFit, rows: Rows) -> Rows:
    """The number of the label that a reading of the votes says, by rows of votes, shape (n,)."""
    return np.asarray(votes.model.beliefs(rows)[0].argmax(axis=1), dtype=np.int64)


@lru_cache(maxsize=32)
def _labelled(latest: LatestRounds, arms: tuple[str, ...], labels: tuple[str, ...]) -> tuple[Rows, Rows]:
    """The vote rows of labelled rounds, shape (n, K), and the human labels' numbers in them, shape (n,).

    The number is :data:`_NO_VOTE` if no arm voted for the label. Rows show no votes for rare labels, so
    rounds in which an arm agrees with a person on one are left out.
    """
    rows, right = [], []
    for kept in latest.rounds:
        cast = {vote.arm: vote.label for vote in kept.votes}
        row, named = row_of(cast, arms, labels)
        if kept.label in named or kept.label not in cast.values():
            rows.append(row)
            right.append(named.index(kept.label) if kept.label in named else _NO_VOTE)
    return np.array(rows, dtype=np.int64).reshape(-1, len(arms)), np.array(right, dtype=np.int64)


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
    temper[[*votes.constant]] = 0.0
    if votes.taught is not None:
        temper[votes.taught] = model.temper[votes.taught]
    return replace(votes, model=replace(model, accuracy=alike, temper=temper))


def correction(
    human: HumanTerms | None, positions: Sequence[int], labels: Sequence[str]
) -> Correction | None:
    """The correction by human labels of the beliefs about the votes of some arms."""
    if human is None:
        return None
    terms = replace(human, arms=human.arms[[*positions]])
    named = sorted(labels) if len(labels) == 2 else []
    return lambda rows, right: terms.correct(rows, right, named)


def _others_say(model: VoteModel, rows: Rows, taught: int) -> Array:
    """The probability of each number's label by the votes of the other arms, shape (P, G) for K arms."""
    right, _ = model.beliefs(np.delete(rows, taught, axis=1))
    wanted = max(right.shape[1], int(rows.max(initial=-1)) + 1)
    return np.pad(right, ((0, 0), (0, wanted - right.shape[1])))
