"""The likelihood of vote patterns under :mod:`camvo.panel`, exactly, with its gradient.

Given which votes were slips, only the numbers n_l of the other votes for each label matter: their probability
is Π_l α(α+1)…(α+n_l−1) / ν(ν+1)…(ν+n−1) with α = ν/M and n = Σn_l (the Dirichlet-multinomial). So each label
has a polynomial, the product over its voters of ε/M + (1−ε)x, whose n-th coefficient is multiplied by the
rising factorial of α, and the likelihood is a linear form of the product of these polynomials: O(K²) a
pattern instead of 2^K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from camvo.typing import Array

_POINTS = 7
NODES, _AREAS = np.polynomial.hermite_e.hermegauss(_POINTS)
WEIGHTS: Array = _AREAS / np.sqrt(2.0 * np.pi)
"""Gauss–Hermite quadrature over the standard normal distribution, which ln ν follows."""


class Likelihood:
    """Of patterns as :class:`camvo.patterns.Patterns` has them, ``rows`` of shape (P, K), with M labels."""

    def __init__(self, rows: NDArray[np.int64], labels: int) -> None:
        self._rows, self._labels = rows, labels
        self._places = int(rows.max(initial=-1)) + 1
        self._degrees = [int((rows == place).sum(axis=1).max(initial=0)) for place in range(self._places)]
        self._n = np.arange(rows.shape[1] + 1.0)

    def next_answer(self, slips: Array, doubts: Array, weights: Array) -> Array:
        """The probability that one more answer that is no slip is a pattern's label, shape (P, K)."""
        scale = self._rising(doubts / self._labels)
        forms = [self._form(slips, place)[-1] for place in range(self._places)]
        total, named = np.zeros(len(self._rows)), np.zeros(self._rows.shape)
        for z, (doubt, weight) in enumerate(zip(doubts, weights, strict=True)):
            ahead = self._products(forms, scale[z])
            falling = self._falling(doubt)
            total += weight * (ahead[-1] @ falling)
            adjoints = self._adjoints(forms, scale[z], ahead, falling / (doubt + self._n))
            for place, adjoint in enumerate(adjoints):
                more = forms[place] * (scale[z] * (doubt / self._labels + self._n))
                named[:, place] += weight * (adjoint * more).sum(axis=1)
        there = np.arange(self._rows.shape[1]) <= self._rows.max(axis=1, initial=-1)[:, None]
        return np.where(there, named / total[:, None], 0.0)

    def gradient(self, slips: Array, doubts: Array, weights: Array) -> tuple[Array, Array, Array]:
        """The likelihood (P,), and what it changes by with each slip (P, K) and each doubt (P, Z).

        Args:
            slips: ε of each voter, shape (K,).
            doubts: values of ν, shape (Z,), that the likelihood is mixed over …
            weights: … with these weights, shape (Z,).
        """
        alphas = doubts / self._labels
        scale = self._rising(alphas)
        rising = psi(alphas[:, None] + self._n) - psi(alphas)[:, None]
        stages = [self._form(slips, place) for place in range(self._places)]
        forms = [stage[-1] for stage in stages]
        value, by_doubt = np.zeros(len(self._rows)), np.zeros((len(self._rows), len(doubts)))
        by_form = [np.zeros_like(form) for form in forms]
        for z, (doubt, weight) in enumerate(zip(doubts, weights, strict=True)):
            ahead = self._products(forms, scale[z])
            falling = self._falling(doubt)
            value += weight * (ahead[-1] @ falling)
            by_doubt[:, z] = weight * (ahead[-1] @ (falling * (psi(doubt) - psi(doubt + self._n))))
            for place, adjoint in enumerate(self._adjoints(forms, scale[z], ahead, falling)):
                scaled = weight * adjoint * scale[z]
                by_form[place] += scaled
                by_doubt[:, z] += (scaled * forms[place] * rising[z]).sum(axis=1) / self._labels
        by_slip = np.zeros(self._rows.shape)
        for place, stage in enumerate(stages):
            self._through(slips, place, stage, by_form[place], by_slip)
        return value, by_slip, by_doubt

    def _rising(self, alphas: Array) -> Array:
        """α(α+1)…(α+n−1), shape (Z, K + 1)."""
        return np.asarray(np.exp(gammaln(alphas[:, None] + self._n) - gammaln(alphas)[:, None]))

    def _falling(self, doubt: float) -> Array:
        """1 / ν(ν+1)…(ν+n−1), shape (K + 1,)."""
        return np.asarray(np.exp(gammaln(doubt) - gammaln(doubt + self._n)))

    def _form(self, slips: Array, place: int) -> list[Array]:
        """The label's polynomial Π(ε/M + (1−ε)x) before each voter and after all; each (P, K + 1)."""
        current: Array = np.zeros((len(self._rows), len(self._n)))
        current[:, 0] = 1.0
        stages = [current]
        for voter, slip in enumerate(slips):
            voted = self._rows[:, voter, None] == place
            longer = slip / self._labels * current
            longer[:, 1:] += (1.0 - slip) * current[:, :-1]
            current = np.where(voted, longer, current)
            stages.append(current)
        return stages

    def _through(self, slips: Array, place: int, stages: list[Array], adjoint: Array, by_slip: Array) -> None:
        """Take the adjoint of a label's polynomial back to the slips of its voters."""
        for voter in reversed(range(len(slips))):
            voted = self._rows[:, voter] == place
            before = stages[voter]
            level = (before * adjoint).sum(axis=1)
            shift = (before[:, :-1] * adjoint[:, 1:]).sum(axis=1)
            by_slip[:, voter] += np.where(voted, level / self._labels - shift, 0.0)
            earlier = slips[voter] / self._labels * adjoint
            earlier[:, :-1] += (1.0 - slips[voter]) * adjoint[:, 1:]
            adjoint = np.where(voted[:, None], earlier, adjoint)

    def _products(self, forms: list[Array], scale: Array) -> list[Array]:
        """The product of the first 0, 1, … labels' polynomials, each of shape (P, K + 1)."""
        current: Array = np.zeros((len(self._rows), len(self._n)))
        current[:, 0] = 1.0
        products = [current]
        for form, degree in zip(forms, self._degrees, strict=True):
            following = current * (form[:, :1] * scale[0])
            for k in range(1, degree + 1):
                following[:, k:] += current[:, :-k] * (form[:, k, None] * scale[k])
            current = following
            products.append(current)
        return products

    def _adjoints(self, forms: list[Array], scale: Array, ahead: list[Array], falling: Array) -> list[Array]:
        """What the linear form ``falling`` of the product changes by with each label's scaled polynomial."""
        behind = np.repeat(falling[None, :], len(self._rows), axis=0)
        adjoints = []
        for place in reversed(range(self._places)):
            degree, form = self._degrees[place], forms[place]
            adjoint = np.zeros_like(form)
            earlier = behind * (form[:, :1] * scale[0])
            adjoint[:, 0] = (ahead[place] * behind).sum(axis=1)
            for k in range(1, degree + 1):
                adjoint[:, k] = (ahead[place][:, :-k] * behind[:, k:]).sum(axis=1)
                earlier[:, :-k] += behind[:, k:] * (form[:, k, None] * scale[k])
            adjoints.append(adjoint)
            behind = earlier
        return adjoints[::-1]
