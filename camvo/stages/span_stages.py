"""The stages of a question whose votes are spans: each place of the text is decided by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs
from camvo.joint.places import SpanFit, place_patterns
from camvo.joint.plans import (
    Multipliers,
    Stops,
    Worth,
    plan_by_worth,
    prices_without,
    quick_prices,
    rounded,
)
from camvo.joint.votes import Rows
from camvo.numerics.small import EPSILON, TIE
from camvo.state.exploration import UNASKED, VotePattern
from camvo.typing import Array
from camvo.votes.aggregation import Decision
from camvo.votes.spans import Place, answer_by_chances, marked_places


class _Marked:
    """Stopping is worth the probability that a place is decided rightly.

    A place that nobody has marked gets no span, however likely it is that there is one.
    """

    def stopping(self, beliefs: Beliefs) -> Array:
        """See :meth:`camvo.joint.plans.Stops.stopping`."""
        marked = (beliefs.lattice.rows == 1).any(axis=1)
        return np.where(marked, beliefs.surest, beliefs.right[:, 0])

    def finishing(self, beliefs: Beliefs, prices: Sequence[float]) -> None:
        """``None``."""


_MARKED: Final[Stops] = _Marked()


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What is known of a text after some votes.

    Attributes:
        voters: the arms that voted.
        places: the places that they marked.
        chances: the probability of each that it is real.
        unmarked: how many places there are that they have not marked.
        missed: how many of these are real.
    """

    voters: tuple[str, ...]
    places: tuple[Place, ...]
    chances: list[float]
    unmarked: float
    missed: float

    @classmethod
    def of(cls, fit: SpanFit, votes: Mapping[str, str | None]) -> _Known:
        cast = {arm: vote for arm, vote in votes.items() if vote is not None and arm in fit.arms}
        places = marked_places(cast)
        return cls(tuple(cast), places, fit.chances(cast, places), *fit.unmarked(cast))


@dataclass(frozen=True, slots=True)
class SpanStages:
    """The stages of one question whose votes are spans.

    The reward of an answer is its F₁ (:class:`camvo.votes.spans.SpanVote`). To decide a place rightly is
    worth 1 / (2m + 1) right answers if the text has m other spans: that is what a span too many, or one too
    few, takes from an answer whose other spans are right.

    Attributes:
        labels: the label set.
        fit: what votes say.
        prices: the price of each arm of the fit's shortlist, in right labels.
    """

    labels: tuple[str, ...]
    fit: SpanFit
    prices: tuple[float, ...]

    kept = True
    named: tuple[str, ...] = ()

    def _plan_after(self, votes: Mapping[str, str | None]) -> Worth:
        """The plan of whom to ask about a place: it does not count on arms that gave no vote."""
        beliefs, silent = self.fit.beliefs, {arm for arm, vote in votes.items() if vote is None}
        prices = prices_without(silent, self.fit.shortlist, self.prices)
        return plan_by_worth(beliefs, quick_prices(beliefs, prices), _MARKED)

    def places(self, arms: Sequence[str], votes: Mapping[str, str | None]) -> tuple[VotePattern, ...]:
        """The marks at each place of the text."""
        return place_patterns(arms, votes)

    def decision(
        self,
        decision: Decision,
        votes: Mapping[str, str | None],
        labels: Sequence[str],
        sure: Mapping[str, float],
    ) -> Decision:
        """The spans at the places that are more likely real than not, with their expected F₁."""
        known = _Known.of(self.fit, votes)
        if not known.voters:
            return decision
        answer, score = answer_by_chances(known.places, known.chances, self.fit.weights, known.missed)
        return Decision(answer, score, {answer: score})

    def compared(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> tuple[()]:
        """No votes are compared: nobody says how sure a set of spans is."""
        return ()

    def gains(
        self, votes: Mapping[str, str | None], prices: Mapping[str, float], sure: Mapping[str, float]
    ) -> dict[str, float]:
        """What asking each arm adds, before its price, in right answers, for arms that were not asked."""
        if prices.keys() <= votes.keys():
            return {}
        known = _Known.of(self.fit, votes)
        nodes = [self.fit.node(known.voters, place) for place in [*known.places, {}]]
        spans = sum(known.chances) + known.missed
        chances = [*known.chances, known.missed / max(known.unmarked, known.missed, EPSILON)]
        worth = _worth_of_a_place(spans, np.array(chances))
        worth[-1] *= known.unmarked
        paid = np.array([prices.get(arm, 0.0) for arm in self.fit.shortlist])
        added = (
            self._plan_after(votes).asking[nodes] - _MARKED.stopping(self.fit.beliefs)[nodes][:, None] + paid
        )
        total = worth @ np.maximum(added, 0.0)
        by_arm = dict(zip(self.fit.shortlist, total.tolist(), strict=True))
        return {arm: by_arm.get(arm, 0.0) for arm in prices if arm not in votes}

    def together(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> list[str]:
        """The arms to ask first, if nobody has been asked; then :meth:`gains` say whom to ask next."""
        if votes:
            return []
        return [self.fit.shortlist[arm] for arm in self._plan_after({}).together(self.fit.node((), {}))]

    def within(
        self,
        votes: Mapping[str, str | None],
        prices: Mapping[str, float],
        left: int,
        sure: Mapping[str, float],
    ) -> list[str]:
        """The arms to ask now if ``left`` stages, at least 1, are left: the best of those worth their price.

        They are shared out over the stages; the last stage asks all that are left.
        """
        gains = self.gains(votes, prices, sure)
        best = sorted(gains, key=lambda arm: (prices[arm] - gains[arm], arm))
        worthwhile = [arm for arm in best if gains[arm] > prices[arm]]
        return worthwhile[: -(-len(worthwhile) // left)]

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two parts of a plan's description as plain JSON: entries of ``stages``, and entries next to it."""
        return {}, {"spans": self.fit.describe()}


def _worth_of_a_place(spans: Array | float, chance: Array) -> Array:
    """What deciding a place rightly is worth, in right answers, if so many spans are expected in its text."""
    return np.asarray(1.0 / (2.0 * np.maximum(spans - chance, 0.0) + 1.0))


_TEXTS: Final = 60
"""How many texts are simulated to find what plans cost."""

_STEP: Final = 1.5
_STEPS: Final = 24
"""Multipliers of prices are powers of 1.5, up to 11,000."""


def span_shadow_price(
    fit: SpanFit,
    prices: tuple[float, ...],
    shares: tuple[float, ...],
    allowance: float,
    draw: float,
    *,
    waits: tuple[float, ...],
) -> float:
    """Find the multiplier of the prices, at least 1, at which texts keep to the allowance on average.

    What a text costs is simulated: votes are drawn from the model, and arms are asked by
    :meth:`SpanStages.gains`. The arguments and the part of the draw are those of
    :func:`camvo.joint.plans.shadow_price`.
    """
    waits = waits or (0.0,) * len(prices)

    def cost(multiplier: float) -> float:
        dearer = tuple([price * multiplier + wait for price, wait in zip(prices, waits, strict=True)])
        return _simulated_cost(fit, rounded(dearer), shares)

    return Multipliers.around(allowance, cost, _STEP, _STEPS).drawn(allowance, draw)


@lru_cache(maxsize=4096)
def _simulated_cost(fit: SpanFit, prices: tuple[float, ...], shares: tuple[float, ...]) -> float:
    """What asking about a text costs on average, if arms are asked one after another."""
    rows, texts = _drawn(fit)
    plan = plan_by_worth(fit.beliefs, prices, _MARKED)
    added = plan.asking - _MARKED.stopping(fit.beliefs)[:, None] + np.array(prices)
    lattice, real = fit.beliefs.lattice, fit.beliefs.right[:, 1]
    asked = np.zeros((_TEXTS, len(prices)), dtype=np.bool_)
    asked[:, [*plan.together(0)]] = True
    while True:
        cast = np.where(asked[texts], rows, UNASKED)
        seen = (cast == 1).any(axis=1)
        nodes, of_text = lattice.find(cast[seen]), texts[seen]
        unmarked, missed = fit.unmarked_by(asked)
        spans = np.bincount(of_text, real[nodes], _TEXTS) + missed
        gains = np.zeros(asked.shape)
        worth = _worth_of_a_place(spans[of_text], real[nodes])
        np.add.at(gains, of_text, worth[:, None] * np.maximum(added[nodes], 0.0))
        nobody = lattice.find(np.where(asked, 0, UNASKED))
        worth = unmarked * _worth_of_a_place(spans, missed / np.maximum(unmarked, EPSILON))
        gains += worth[:, None] * np.maximum(added[nobody], 0.0)
        net = np.where(asked, -np.inf, gains - np.array(prices))
        best = net.argmax(axis=1)
        further = net[np.arange(_TEXTS), best] > TIE
        if not further.any():
            return float((asked @ np.array(shares)).mean())
        asked[further, best[further]] = True


@lru_cache(maxsize=16)
def _drawn(fit: SpanFit) -> tuple[Rows, NDArray[np.int64]]:
    """The shortlist's marks at the places of texts from the model, (P, K), and the text of each, (P,)."""
    rng = np.random.default_rng(0)
    rows = [fit.drawn(rng) for _ in range(_TEXTS)]
    return np.concatenate(rows), np.repeat(np.arange(_TEXTS), [len(marks) for marks in rows])
