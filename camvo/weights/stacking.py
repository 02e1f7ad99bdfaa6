"""How much each model's vote is worth beside the others', learnt from human labels.

The log-odds of a label are the sum of what speaks for it: the weighted vote, a correction for each model that
voted for it and, in the stacked vote, one for the label itself and one for the model saying this label. The
corrections are normal around 0 with a variance of their own kind (:mod:`camvo.numerics.conditional_logit`),
so without human labels it is the weighted vote, and what a few labels do not show stays as it was. See
``docs/stacking.md`` and, for what the default policy does with it, ``docs/sequential.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from camvo.numerics.conditional_logit import (
    ChoiceSets,
    NormalPrior,
    fit_conditional_logit,
    fit_with_group_precisions,
)
from camvo.state.kept_rounds import Row
from camvo.typing import Array

_SCALE, _NONE, _ALONE, _LEARNT = 0, 1, 2, 3
_FOLDS: Final = 5
_LEANING: Final = 1.0
"""Standard errors by which the corrections may predict worse than the weighted vote and still have half the
say: their prior holds them back already."""


@dataclass(frozen=True, slots=True)
class StackedVotePrior:
    """What is believed before anyone labels a round; all corrections are around 0.

    Attributes:
        scale: the mean of ``scale``; that of ``none`` and ``alone`` is 0.
        known: the precisions of ``scale``, ``none`` and ``alone``.
        arms: the precision of the arms' corrections to begin with.
        labels: the same for those of the labels, and of what an arm says of each; ``None`` where a vote is
            worth the same whatever label it is for.
    """

    scale: float
    known: tuple[float, float, float]
    arms: float
    labels: tuple[float, float] | None = None


OPEN: Final = StackedVotePrior(1.0, (0.3, 0.3, 1.0), arms=10.0, labels=(10.0, 20.0))
"""Weights in any unit, and labels that may differ."""

ANCHORED: Final = StackedVotePrior(1.0 / 3.0, (180.0, 0.3, 1.0), arms=20.0)
"""Weights that are log-odds already. Errors go together, so that they add up to about a third of their sum.
Held loosely, twenty labels on easy rounds could leave nothing of them, and one arm would decide alone."""


@dataclass(frozen=True, slots=True)
class StackedVote:
    """What speaks for a label of one question, in log-odds.

    Attributes:
        scale: for each unit of weight behind it.
        none: for "none of the labels that got a vote".
        alone: added to ``scale``, times the share of the arms that were not asked.
        arms: for each arm behind it.
        labels: for being this label.
        pairs: arm → label → for this arm having said this label.
        trust: the share in [0, 1] with which the corrections count; it is in the numbers above already.
    """

    scale: float = 1.0
    none: float = 0.0
    alone: float = 0.0
    arms: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, float] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    trust: float = 0.0

    def describe(self) -> dict[str, Any]:
        """What is the same for all labels, as plain JSON."""
        kept = {"trust": self.trust, "scale": self.scale, "none": self.none, "alone": self.alone}
        return {**kept, "arms": dict(self.arms)}

    def log_odds(self, votes: Mapping[str, str | None], weights: Mapping[str, float]) -> dict[str, float]:
        """Of each label that got a vote.

        Args:
            votes: arm → label, ``None`` where it said nothing; an arm that was not asked is absent.
            weights: arm → ω ≥ 0, as in the weighted vote.
        """
        absent = 1.0 - len(votes.keys() & self.arms.keys()) / max(len(self.arms), 1)
        scale = self.scale + self.alone * absent
        found: dict[str, list[float]] = {}
        for arm in sorted(votes):
            label = votes[arm]
            if label is None:
                continue
            own = self.arms.get(arm, 0.0) + self.pairs.get(arm, {}).get(label, 0.0)
            found.setdefault(label, [self.labels.get(label, 0.0)]).append(scale * weights[arm] + own)
        return {label: math.fsum(terms) for label, terms in found.items()}

    def probabilities(
        self, votes: Mapping[str, str | None], weights: Mapping[str, float], labels: Sequence[str]
    ) -> dict[str, float]:
        """The probability that each label is right, in the order of ``labels``; they sum to 1.

        Labels without a vote share alike what "none of them" has. Needs at least one vote.
        """
        odds = self.log_odds(votes, weights)
        others = len(labels) - len(odds)
        top = max([*odds.values(), self.none] if others else odds.values())
        shares = {label: math.exp(value - top) for label, value in odds.items()}
        rest = math.exp(self.none - top) if others else 0.0
        total = math.fsum([*shares.values(), rest])
        return {label: shares.get(label, rest / max(others, 1)) / total for label in labels}

    def leader(
        self, votes: Mapping[str, str | None], weights: Mapping[str, float], labels: Sequence[str]
    ) -> tuple[str, float]:
        """The label that is ahead among those with a vote, and its margin in log-odds.

        A label that nobody has named yet has log-odds of 0: the margin is what later votes have to make up
        for. It is ∞ where there is no other label. Ties go to the label that comes first in ``labels``.
        """
        odds = self.log_odds(votes, weights)
        first = max(sorted(odds, key=labels.index), key=odds.__getitem__)
        rivals = [value for label, value in odds.items() if label != first]
        if len(odds) < len(labels):
            rivals.append(0.0)
        return first, odds[first] - max(rivals, default=-math.inf)


def fit_stacked_vote(
    rows: Sequence[Row], labels: Sequence[str], belief: StackedVotePrior = OPEN
) -> StackedVote:
    """The stacked vote after these rounds; those without a human's label or without a vote teach nothing.

    The trust compares the corrections with the weighted vote on rounds that were held out (five folds): it is
    the normal probability of their gain in log-likelihood in the light of its standard error, so it rises
    smoothly, and falls again when labels that spoke for them go.

    Args:
        rows: rounds of one question, whoever was asked.
        labels: the label set, in any order.
        belief: what is believed before the first of them.
    """
    known = [row for row in rows if row.label in labels and any(vote.label in labels for vote in row.votes)]
    if not known:
        return StackedVote(scale=belief.scale)
    arms = sorted({vote.arm for row in known for vote in row.votes if vote.label in labels})
    names = [] if belief.labels is None else sorted(labels)
    sizes = (len(arms), len(names), len(arms) * len(names))
    choices = _choices(known, arms, sorted(labels), by_label=bool(names))
    mean = np.zeros(choices.design.shape[1])
    mean[_SCALE] = belief.scale
    precisions = [*belief.known, belief.arms, *(belief.labels or (1.0, 1.0))]
    initial = np.repeat(precisions, [1, 1, 1, *sizes])
    ends = np.cumsum([_LEARNT, *sizes])
    groups = [np.arange(start, end) for start, end in pairwise(ends.tolist())]
    coefficients, prior = fit_with_group_precisions(choices, NormalPrior(mean, initial), groups)
    simple = choices.first_coefficients(_LEARNT)
    narrow = NormalPrior(mean[:_LEARNT], initial[:_LEARNT])
    plain = fit_conditional_logit(simple, narrow)
    gains: list[Array] = [np.zeros(0)]
    for fold in range(_FOLDS):
        held = np.arange(len(known)) % _FOLDS == fold
        if held.all() or not held.any():
            continue
        full_score = choices.select(held).log_likelihoods(
            fit_conditional_logit(choices.select(~held), prior, coefficients)
        )
        plain_score = simple.select(held).log_likelihoods(
            fit_conditional_logit(simple.select(~held), narrow, plain)
        )
        gains.append(full_score - plain_score)
    trust = _trust(np.concatenate(gains))
    mixed = trust * coefficients
    mixed[:_LEARNT] += (1.0 - trust) * plain
    head, of_arms, of_labels, of_pairs = np.split(mixed, ends[:-1])
    pairs = of_pairs.reshape(len(arms), len(names)).tolist()
    scale, none, alone = head.tolist()
    return StackedVote(
        scale,
        none,
        alone,
        arms=dict(zip(arms, of_arms.tolist(), strict=True)),
        labels=dict(zip(names, of_labels.tolist(), strict=True)),
        pairs={arm: dict(zip(names, row, strict=True)) for arm, row in zip(arms, pairs, strict=True)},
        trust=trust,
    )


def _trust(gains: Array) -> float:
    """How much the corrections count, from what each held-out round gains by them in nats, shape (n,)."""
    if len(gains) < _FOLDS:
        return 0.0
    total, error = float(gains.sum()), math.sqrt(len(gains)) * float(gains.std())
    return float(ndtr(total / error + _LEANING)) if error > 0.0 else float(total > 0.0)


def _choices(
    rows: Sequence[Row], arms: Sequence[str], labels: Sequence[str], *, by_label: bool
) -> ChoiceSets:
    """Each round's candidates: the labels that got a vote and, where others did not, "none of them"."""
    arm_at = {arm: position for position, arm in enumerate(arms)}
    label_at = {label: position for position, label in enumerate(labels)}
    asked = [len({vote.arm for vote in row.votes} & arm_at.keys()) for row in rows]
    said = [
        (number, arm_at[vote.arm], label_at[vote.label])
        for number, row in enumerate(rows)
        for vote in row.votes
        if vote.label in label_at
    ]
    weights = np.array([vote.weight for row in rows for vote in row.votes if vote.label in label_at])
    number, arm, label = np.array(said, dtype=np.int64).T
    none, width = len(labels), len(labels) + 1
    backed = np.unique(number * width + label)
    open_ = np.flatnonzero(np.bincount(backed // width) < none)
    codes = np.sort(np.concatenate((backed, open_ * width + none)))
    round_, named = codes // width, codes % width
    truth = np.array([label_at[str(row.label)] for row in rows], dtype=np.int64)
    missed = ~np.isin(np.arange(len(rows)) * width + truth, backed)
    chosen = np.where(named == none, missed[round_], named == truth[round_])

    candidate = np.searchsorted(codes, number * width + label)
    weight = np.bincount(candidate, weights, len(codes))
    absent = (1.0 - np.array(asked) / len(arms))[round_]
    nobody, somebody = np.flatnonzero(named == none), np.flatnonzero(named < none)
    first_label, first_pair = _LEARNT + len(arms), _LEARNT + len(arms) + len(labels)
    entries: list[tuple[Any, Any, Any]] = [
        (somebody, _SCALE, weight[somebody]),
        (somebody, _ALONE, (weight * absent)[somebody]),
        (candidate, _LEARNT + arm, 1.0),
        (nobody, _NONE, 1.0),
    ]
    if by_label:
        entries.append((somebody, first_label + named[somebody], 1.0))
        entries.append((candidate, first_pair + arm * len(labels) + label, 1.0))
    at, column, value = (
        np.concatenate(part) for part in zip(*(np.broadcast_arrays(*entry) for entry in entries), strict=True)
    )
    shape = (len(codes), first_pair + len(arms) * len(labels) if by_label else first_label)
    design = sparse.csr_matrix((value, (at, column)), shape=shape)
    return ChoiceSets(design, np.searchsorted(round_, np.arange(len(rows))), chosen)
