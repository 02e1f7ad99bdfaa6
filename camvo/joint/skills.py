"""Skills that depend on a task's features: the log-odds of an arm being right, with a linear term.

Arm k is right on a task with features x with log-odds b_kc + w_k·x, where c is the kind of the item, or its
right label where there are two. With two labels the log-odds of the second one are linear in x as well.
Without that term, what a text reveals about its label would be mistaken for skill on items of that label.
Everything is fitted by EM to votes. The slopes have a normal prior, whose variance is learnt too (MacKay,
1992).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit, logit

from camvo.joint.models import Kinds
from camvo.joint.two_coins import Explained, TwoCoins, likely_difficulty
from camvo.joint.votes import Rows
from camvo.state.exploration import LatestContexts
from camvo.twins import asking_each
from camvo.typing import Array

_STEPS: Final = 15
_FIRST_VARIANCE: Final = 1.0
"""The prior variance of a slope before the first step. Smaller ones leave EM at skills without slopes."""

_FIRST_ACCURACY: Final = 0.7
"""With two labels all arms start alike, because biases found without features may be skills."""

_ANCHOR_ROUNDS: Final = 5.0
"""The weight, in rounds with average features, that pulls an arm's accuracy to the one without features."""

_LONGEST_STEP: Final = 3.0
_LOWEST, _HIGHEST = 0.005, 0.995
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.98
"""The least and the most probable that features make a label."""

_WITNESS: Final = 0.5
"""The weight of the slopes of a label relative to votes. The models read the same text, so the text is not
independent evidence: a text that misleads the slopes also misleads the models."""


@dataclass(frozen=True, slots=True, eq=False)
class _SkillTerms:
    """The skills of K arms on items of C kinds, with r features.

    Attributes:
        model: the model of votes; it holds everything but the accuracies.
        base: b, shape (K, C).
        slopes: w, shape (K, r).
        lean: the slopes of the log-odds of the second of two labels, shape (r,); 0 where there are more.
    """

    model: TwoCoins | Kinds
    base: Array
    slopes: Array
    lean: Array

    def accuracy(self, features: Array) -> Array:
        """The accuracy of each arm on each task, shape (n, K, C), given features of shape (n, r)."""
        odds = self.base + (features @ self.slopes.T)[:, :, None]
        return np.asarray(np.clip(expit(odds), _LOWEST, _HIGHEST), dtype=np.float64)

    def at(self, features: Array) -> TwoCoins | Kinds:
        """The model of votes on one task, given its features, shape (r,).

        The slopes of the label count by half, because features and votes come from the same text.
        """
        model = self._leaning(_WITNESS * features)
        return replace(model, accuracy=self.accuracy(features[None])[0])

    def evidence(self, rows: Rows, features: Array) -> Array:
        """The log-probability of the votes in each row, shape (n,)."""
        return self.explained(rows, features).evidence

    def explained(self, rows: Rows, features: Array) -> Explained:
        """What the votes in each row say."""
        return self._leaning(features).explained(rows, self._accuracy_by_row(features))

    def with_difficulty(self, rows: Rows, features: Array) -> _SkillTerms:
        """The same terms, with the difficulty of items that is left once features explain skills."""
        leaning = self._leaning(features)
        if not isinstance(leaning, TwoCoins) or not isinstance(self.model, TwoCoins):
            return self
        by_row = replace(leaning, accuracy=self._accuracy_by_row(features))
        left = likely_difficulty(by_row, rows, np.ones(len(rows)))
        return replace(self, model=replace(self.model, difficulty=left))

    def _accuracy_by_row(self, features: Array) -> Array:
        """The accuracies on each task, (n, K, C), or on all, (K, C): without slopes they are the same."""
        return self.accuracy(features) if self.slopes.any() else self.accuracy(features[:1])[0]

    def _leaning(self, features: Array) -> TwoCoins | Kinds:
        """The model with the labels' probabilities on tasks with these features, shape (…, r)."""
        if not isinstance(self.model, TwoCoins) or not self.lean.any():
            return self.model
        second = np.clip(expit(logit(self.model.share[1]) + features @ self.lean), _LEAST_SHARE, _MOST_SHARE)
        return replace(self.model, share=np.stack((1.0 - second, second), axis=-1))


def _fit_skill_terms(
    model: TwoCoins | Kinds, rows: Rows, features: Array, *, skilled: bool = True
) -> _SkillTerms:
    """Fit the terms by EM to rounds that asked all arms."""
    anchor = logit(np.clip(model.accuracy, _LOWEST, _HIGHEST))
    count = features.shape[1]
    difficult = isinstance(model, TwoCoins) and model.difficulty > 0.0
    skills, leans = _Slopes.none(anchor, count if skilled else 0), _Slopes.none(np.zeros((1, 1)), count)
    if isinstance(model, TwoCoins):
        skills = replace(skills, base=np.full_like(anchor, logit(_FIRST_ACCURACY)))
        model = replace(model, share=np.full(2, 0.5), difficulty=0.0)
    terms = _terms(model, skills, leans)
    for _ in range(_STEPS):
        explained = terms.explained(rows, features)
        seen = explained.mass * (rows >= 0).T[:, :, None]
        right = np.moveaxis(explained.right, 1, 0)
        skills = skills.taught(features[:, : skills.slopes.shape[1]], seen, right, anchor)
        if isinstance(model, TwoCoins):
            leans = leans.of_labels(explained, features)
        else:
            model = model.with_shares(explained.mass)
        terms = _terms(model, skills, leans)
    return terms.with_difficulty(rows, features) if difficult else terms


def _fit_label_terms(model: TwoCoins, rows: Rows, features: Array) -> _SkillTerms:
    """Fit by EM how features predict the label; the accuracies stay those of the model."""
    skills = _Slopes.none(logit(np.clip(model.accuracy, _LOWEST, _HIGHEST)), 0)
    leans = _Slopes.none(np.zeros((1, 1)), features.shape[1])
    for _ in range(_STEPS):
        leans = leans.of_labels(_terms(model, skills, leans).explained(rows, features), features)
    return _terms(model, skills, leans)


def _terms(model: TwoCoins | Kinds, skills: _Slopes, leans: _Slopes) -> _SkillTerms:
    """The terms with these slopes; a model of two labels gets the labels' shares as well."""
    if isinstance(model, TwoCoins):
        second = float(np.clip(expit(leans.base[0, 0]), _LEAST_SHARE, _MOST_SHARE))
        model = replace(model, share=np.array([1.0 - second, second]))
    count = leans.slopes.shape[1]
    slopes = skills.slopes if skills.slopes.shape[1] == count else np.zeros((len(skills.base), count))
    return _SkillTerms(model, skills.base, slopes, leans.slopes[0])


@dataclass(frozen=True, slots=True, eq=False)
class _Slopes:
    """Logistic regressions that are being fitted.

    Attributes:
        base: shape (K, C).
        slopes: shape (K, r).
        variance: the prior variance of a slope.
    """

    base: Array
    slopes: Array
    variance: float

    @classmethod
    def none(cls, base: Array, count: int) -> _Slopes:
        """No slopes yet."""
        return cls(base.copy(), np.zeros((len(base), count)), _FIRST_VARIANCE)

    def taught(self, features: Array, seen: Array, right: Array, anchor: Array) -> _Slopes:
        """After one Newton step; see :class:`_Lesson`."""
        lesson = _Lesson(features, seen, right, anchor, self.variance)
        step, spread = lesson.newton(self.base, self.slopes)
        kinds = self.base.shape[1]
        base, slopes = self.base + step[:, :kinds], self.slopes + step[:, kinds:]
        variance = (float((slopes**2).sum()) + spread + 0.2) / (slopes.size + 2.0)
        return _Slopes(base, slopes, variance)

    def of_labels(self, explained: Explained, features: Array) -> _Slopes:
        """After one Newton step of the log-odds of the second of two labels."""
        second = explained.mass[None, :, 1:]
        return self.taught(features, np.ones_like(second), second, np.zeros((1, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class _Lesson:
    """What votes say about each arm's skill: K logistic regressions on soft labels.

    Attributes:
        features: shape (n, r).
        seen: the probability of each kind in rounds in which the arm voted, shape (K, n, C).
        right: the same, times the probability that the vote is right, shape (K, n, C).
        anchor: the log-odds without features, shape (K, C).
        variance: the prior variance of a slope.
    """

    features: Array
    seen: Array
    right: Array
    anchor: Array
    variance: float

    def newton(self, base: Array, slopes: Array) -> tuple[Array, float]:
        """One Newton step of each arm, shape (K, C + r), and the sum of the slopes' posterior variances."""
        (arms, kinds), x = base.shape, self.features
        chance = expit(base[:, None] + (slopes @ x.T)[:, :, None])
        expected, at_mean = self.seen * chance, expit(base)
        gap, curve = self.right - expected, expected * (1.0 - chance)
        gradient = np.concatenate(
            (
                gap.sum(axis=1) + _ANCHOR_ROUNDS * (expit(self.anchor) - at_mean),
                gap.sum(axis=2) @ x - slopes / self.variance,
            ),
            axis=1,
        )
        size = gradient.shape[1]
        hessian = np.zeros((arms, size, size))
        own = curve.sum(axis=1) + _ANCHOR_ROUNDS * at_mean * (1.0 - at_mean)
        hessian[:, range(kinds), range(kinds)] = own + 1e-6
        hessian[:, kinds:, :kinds] = x.T @ curve
        hessian[:, :kinds, kinds:] = np.swapaxes(hessian[:, kinds:, :kinds], 1, 2)
        hessian[:, kinds:, kinds:] = x.T @ (x * curve.sum(axis=2)[:, :, None])
        hessian[:, range(kinds, size), range(kinds, size)] += 1.0 / self.variance
        inverse = np.linalg.inv(hessian)
        step = (inverse @ gradient[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))
        return step, float(inverse[:, range(kinds, size), range(kinds, size)].sum())


_MOST_FEATURES: Final = 64
_FOLDS: Final = 4
_FEWEST_ROUNDS: Final = 36
_ERRORS: Final = 3.0
"""By how many standard errors skills by context must predict held-out votes better. Fits are renewed some
fifteen times in a project, so chance gains of two standard errors would be too frequent."""

_LEAST_SPREAD: Final = 1e-4
"""Components whose deviation is below this share of the largest one are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class _Components:
    """Principal components of contexts.

    Attributes:
        mean: the mean context, shape (d,).
        axes: shape (d, r), scaled so that the mean variance of the components is 1.
    """

    mean: Array
    axes: Array

    @classmethod
    def of(cls, contexts: Array) -> _Components | None:
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

    components: _Components
    terms: _SkillTerms
    gain: float
    error: float
    rounds: int

    @property
    def skilled(self) -> bool:
        """Whether the context predicts skills; otherwise it predicts only the label."""
        return bool(self.terms.slopes.any())

    def model(self, context: Array) -> TwoCoins | Kinds:
        """The model of votes on a task with this context, shape (d,)."""
        return self.terms.at(self.components.features(context))

    def describe(self) -> dict[str, Any]:
        """What a round's plan stores, as plain JSON."""
        of = "skills" if self.skilled else "labels"
        return {"rounds": self.rounds, "gain": self.gain, "error": self.error, "of": of}

    @classmethod
    @lru_cache(maxsize=32)
    def fit(
        cls, model: TwoCoins | Kinds, latest: LatestContexts, arms: tuple[str, ...], labels: Sequence[str]
    ) -> ContextSkills | None:
        """Fit skills by context; ``None`` unless they predict held-out votes surely better."""
        rows, contexts = _rows(latest, arms, labels)
        components = _Components.of(contexts) if len(rows) >= _FEWEST_ROUNDS else None
        if components is None:
            return None
        features = components.features(contexts)
        gains, skilled = _gains(model, rows, features)
        gain, error = _mean_and_error(gains)
        if not _is_sure(gain, error):
            return None
        if isinstance(model, TwoCoins) and not skilled:
            terms = _fit_label_terms(model, rows, features)
        else:
            terms = _fit_skill_terms(model, rows, features)
        return cls(components, terms, gain, error, len(rows))


@lru_cache(maxsize=32)
def reading_by_contexts(
    model: TwoCoins | Kinds,
    rival: TwoCoins | Kinds,
    latest: LatestContexts,
    arms: tuple[str, ...],
    labels: tuple[str, ...],
) -> TwoCoins | Kinds | None:
    """The reading of the votes whose labels the contexts predict better; ``None`` if they do not tell.

    Skills by context explain why some arms agree more than the model says, and so leave no rival. Contexts
    that only predict labels predict those of both readings, and those of the right one better.
    """
    skills = ContextSkills.fit(model, latest, arms, labels)
    if skills is None:
        return None
    if skills.skilled or not (isinstance(model, TwoCoins) and isinstance(rival, TwoCoins)):
        return model
    rows, contexts = _rows(latest, arms, labels)
    features = skills.components.features(contexts)
    lead = np.zeros(len(rows))
    for held in _folds(len(rows)):
        for reading, sign in ((model, 1.0), (rival, -1.0)):
            terms = _fit_label_terms(reading, rows[~held], features[~held])
            gains = terms.evidence(rows[held], features[held]) - reading.beliefs(rows[held])[1]
            lead[held] += sign * gains
    gain, error = _mean_and_error(lead)
    if _is_sure(abs(gain), error):
        return model if gain > 0.0 else rival
    return None


def _folds(rounds: int) -> Iterator[NDArray[np.bool_]]:
    """The rounds that each fit leaves out, shape (n,)."""
    return (np.arange(rounds) % _FOLDS == fold for fold in range(_FOLDS))


def _gains(model: TwoCoins | Kinds, rows: Rows, features: Array) -> tuple[Array, bool]:
    """By how much features raise the log-probability of each round's votes, held out of the fit, shape (n,).

    The comparison is with the model without features, or with the same fit to none, whichever is better.
    With two labels, skills by features must also predict better than two fits in which features predict the
    label only: one with the model's accuracies, and one with refitted accuracies. Otherwise the gains are
    those of the first of these two fits over the model. A fit that cannot change whether the gains are sure
    is left out.
    """
    folds = [(held, model.refitted(rows[~held])) for held in _folds(len(rows))]

    def predicted(fit: Callable[[Any, Rows, Array], _SkillTerms], known: Array = features) -> Array:
        """The log-probability of each round's votes by terms that were fitted to the others, shape (n,)."""
        evidence = np.zeros(len(rows))
        for held, fitted in folds:
            terms = fit(fitted, rows[~held], known[~held])
            evidence[held] = terms.evidence(rows[held], known[held])
        return evidence

    alone = np.zeros(len(rows))
    for held, fitted in folds:
        _, alone[held] = fitted.beliefs(rows[held])
    skilled = predicted(_fit_skill_terms)
    if isinstance(model, TwoCoins):
        leaning = predicted(_fit_label_terms)
        if skilled.sum() <= leaning.sum():
            return leaning - alone, False
        refitted = predicted(partial(_fit_skill_terms, skilled=False))
        of_labels = max(leaning, refitted, key=np.sum)
        if not _is_sure(*_mean_and_error(skilled - of_labels)):
            return leaning - alone, False
    if skilled.sum() <= alone.sum():
        return skilled - alone, True
    without = predicted(_fit_skill_terms, features[:, :0])
    return skilled - max(without, alone, key=np.sum), True


def _mean_and_error(gains: Array) -> tuple[float, float]:
    """The mean of gains, shape (n,), and its standard error."""
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _is_sure(gain: float, error: float) -> bool:
    """Whether a gain is above 0 by three standard errors."""
    return gain > _ERRORS * error


def _rows(latest: LatestContexts, arms: Sequence[str], labels: Sequence[str]) -> tuple[Rows, Array]:
    """The vote rows and contexts of the rounds that had the models of all ``arms`` in their pool."""
    rows, kept, asks_each = [], [], asking_each(arms)
    for number, pattern in enumerate(latest.patterns):
        row = pattern.among(arms, labels)
        if row is not None and asks_each(pattern.arms):
            rows.append(row)
            kept.append(number)
    votes = np.array(rows, dtype=np.int64).reshape(-1, len(arms))
    contexts = latest.contexts[kept].astype(np.float64)
    return votes, contexts
