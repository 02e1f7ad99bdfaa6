"""Skills by context: used only where they predict votes better than skills that know no context.

The features of a task are the principal components of its context among those of past rounds. Held-out
rounds decide: skills by context are used if they give votes a larger probability, by three standard errors.
With two labels a context may tell of the label, of the skills or of both, and the same rounds decide which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from scipy.linalg import eigh

from camvo.joint.models.kinds import Kinds
from camvo.joint.models.two_coins import TwoCoins
from camvo.joint.skill_terms import SkillTerms, fit_label_terms, fit_skill_terms
from camvo.joint.vote_rows import Rows, asked_each_model, models_of, renumber
from camvo.state.context_rounds import LatestContexts
from camvo.state.vote_patterns import UNASKED
from camvo.typing import Array

_MOST_FEATURES: Final = 64
_FOLDS: Final = 4
_FEWEST_ROUNDS: Final = 36
_ERRORS: Final = 3.0
"""By how many standard errors skills by context must predict held-out votes better. Fits are renewed some
fifteen times in a project, so two would be passed by chance too often."""

_LEAST_SPREAD: Final = 1e-4
"""Components whose deviation is below this share of the largest one are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Principal components of contexts.

    Attributes:
        mean: the mean context, shape (d,).
        axes: shape (d, r), scaled so that the mean variance of the components is 1.
    """

    mean: Array
    axes: Array

    @classmethod
    def of(cls, contexts: Array) -> Components | None:
        """The components of contexts, shape (n, d); ``None`` if all contexts are the same."""
        mean = contexts.mean(axis=0)
        centered, width = contexts - mean, contexts.shape[1]
        largest = (max(width - _MOST_FEATURES, 0), width - 1)
        variances, axes = eigh(centered.T @ centered / len(contexts), subset_by_index=largest)
        most = variances[-1]
        if most * len(contexts) < _LEAST_SPREAD**2:
            return None
        kept = variances > _LEAST_SPREAD**2 * most
        return cls(mean, axes[:, kept] / np.sqrt(variances[kept].mean()))

    def features(self, contexts: Array) -> Array:
        """The features of contexts, shape (…, d) → (…, r)."""
        return np.asarray((contexts - self.mean) @ self.axes, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class ContextSkills:
    """Skills by context.

    Attributes:
        components: from contexts to features.
        terms: from features to skills.
        gain: by how much they raise the log-probability of a held-out round's votes.
        error: the standard error of the gain.
        rounds: the number of rounds that they were fitted to.
    """

    components: Components
    terms: SkillTerms
    gain: float
    error: float
    rounds: int

    @property
    def useful(self) -> bool:
        """Whether they predict held-out votes better, by three standard errors."""
        return _is_sure(self.gain, self.error)

    @property
    def skilled(self) -> bool:
        """Whether the context tells of skills; otherwise it tells only of the label."""
        return bool(self.terms.slopes.any())

    def model(self, context: Array) -> TwoCoins | Kinds:
        """The model of votes on a task with this context, shape (d,)."""
        return self.terms.at(self.components.features(context))

    def describe(self) -> dict[str, Any]:
        """What a round's plan stores, as plain JSON."""
        told = "skills" if self.skilled else "labels"
        return {"rounds": self.rounds, "gain": self.gain, "error": self.error, "of": told}


@lru_cache(maxsize=32)
def fit_context_skills(
    model: TwoCoins | Kinds, latest: LatestContexts, arms: tuple[str, ...], labels: int
) -> ContextSkills | None:
    """Fit skills by context, and measure what they gain.

    Args:
        model: the model of votes without contexts.
        latest: the contexts of rounds that asked all arms.
        arms: the K arms, sorted.
        labels: M.

    Returns:
        ``None`` if rounds are few, or all have the same context.
    """
    rows, contexts = _rows(latest, arms, labels)
    components = Components.of(contexts) if len(rows) >= _FEWEST_ROUNDS else None
    if components is None:
        return None
    features = components.features(contexts)
    gains, skilled = _gains(model, rows, features)
    if isinstance(model, TwoCoins) and not skilled:
        terms = fit_label_terms(model, rows, features)
    else:
        terms = fit_skill_terms(model, rows, features)
    return ContextSkills(components, terms, *_mean_and_error(gains), len(rows))


def _gains(model: TwoCoins | Kinds, rows: Rows, features: Array) -> tuple[Array, bool]:
    """By how much features raise the log-probability of each round's votes, held out of the fit, shape (n,).

    The comparison is with the model without features, or with the same fit to none, whichever is better.
    With two labels, skills by features must also predict better than fits in which features tell of the label
    only: one with the model's accuracies, and one with accuracies of its own. Otherwise the gains are those
    of the first of these over the model.

    Returns:
        The gains, and whether skills hang on the features.
    """
    skilled, leaning, refitted, without, alone = np.zeros((5, len(rows)))
    for fold in range(_FOLDS):
        held = np.arange(len(rows)) % _FOLDS == fold
        others, known, asked = rows[~held], features[~held], features[held]
        fitted = model.refitted(others)
        skilled[held] = fit_skill_terms(fitted, others, known).evidence(rows[held], asked)
        without[held] = fit_skill_terms(fitted, others, known[:, :0]).evidence(rows[held], asked[:, :0])
        _, alone[held] = fitted.beliefs(rows[held])
        if isinstance(fitted, TwoCoins):
            leaning[held] = fit_label_terms(fitted, others, known).evidence(rows[held], asked)
            terms = fit_skill_terms(fitted, others, known, skilled=False)
            refitted[held] = terms.evidence(rows[held], asked)
    told = max(leaning, refitted, key=np.sum)
    if isinstance(model, TwoCoins) and not _is_sure(*_mean_and_error(skilled - told)):
        return leaning - alone, False
    return skilled - max(without, alone, key=np.sum), True


def _mean_and_error(gains: Array) -> tuple[float, float]:
    """The mean of gains, shape (n,), and its standard error."""
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _is_sure(gain: float, error: float) -> bool:
    """Whether a gain is above 0 by three standard errors."""
    return gain > _ERRORS * error


def _rows(latest: LatestContexts, arms: Sequence[str], labels: int) -> tuple[Rows, Array]:
    """The vote rows and contexts of the rounds that asked the models of all ``arms``."""
    rows, kept, models = [], [], models_of(arms)
    for number, pattern in enumerate(latest.patterns):
        group_of = dict(zip(pattern.arms, pattern.groups, strict=True))
        row = [group_of.get(arm, UNASKED) for arm in arms]
        if asked_each_model(row, models) and (labels == 2) == bool(pattern.labels):
            rows.append(row)
            kept.append(number)
    votes = np.array(rows, dtype=np.int64).reshape(-1, len(arms))
    contexts = latest.contexts[kept].astype(np.float64)
    return votes if labels == 2 else renumber(votes), contexts
