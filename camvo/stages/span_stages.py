"""The stages of a question whose votes are spans: each place of the text is decided by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from camvo.joint.beliefs import Beliefs
from camvo.joint.places import SpanFit, place_patterns
from camvo.joint.plans import Stops, Worth, plan_by_worth, rounded
from camvo.state.exploration import VotePattern
from camvo.typing import Array
from camvo.votes.aggregation import Decision
from camvo.votes.spans import Place, answer_by_chances, marked_places

_QUICK_NODES: Final = 5000
"""With more nodes a plan takes some milliseconds, and prices are rounded."""


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

    silent = None
    stops = None
    kept = True
    named: tuple[str, ...] = ()

    @property
    def plan(self) -> Worth:
        """The plan of whom to ask about a place."""
        quick = len(self.fit.planned.right) <= _QUICK_NODES
        return plan_by_worth(self.fit.planned, self.prices if quick else rounded(self.prices), _MARKED)

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

    def leader(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> str | None:
        """The answer by these votes."""
        known = _Known.of(self.fit, votes)
        return answer_by_chances(known.places, known.chances, self.fit.weights)[0]

    def compared(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> tuple[()]:
        """No votes are compared: nobody says how sure a set of spans is."""
        return ()

    def promised(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> None:
        """Nothing is promised of the votes of all arms."""

    def gains(
        self, votes: Mapping[str, str | None], prices: Mapping[str, float], sure: Mapping[str, float]
    ) -> dict[str, float]:
        """What asking each arm adds, before its price, in right answers, for arms that were not asked."""
        known = _Known.of(self.fit, votes)
        nodes = [self.fit.node(known.voters, place) for place in [*known.places, {}]]
        spans = sum(known.chances) + known.missed
        chances = [*known.chances, known.missed / max(known.unmarked, known.missed, 1e-9)]
        worth = 1.0 / (2.0 * np.maximum(spans - np.array(chances), 0.0) + 1.0)
        worth[-1] *= known.unmarked
        paid = np.array([prices.get(arm, 0.0) for arm in self.fit.shortlist])
        added = self.plan.asking[nodes] - _MARKED.stopping(self.fit.planned)[nodes][:, None] + paid
        total = worth @ np.maximum(added, 0.0)
        by_arm = dict(zip(self.fit.shortlist, total.tolist(), strict=True))
        return {arm: by_arm.get(arm, 0.0) for arm in prices if arm not in votes}

    def together(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> list[str]:
        """The arms to ask first, if nobody has been asked; then :meth:`gains` say whom to ask next."""
        if votes:
            return []
        return [self.fit.shortlist[arm] for arm in self.plan.together(self.fit.node((), {}))]

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
