"""What plans lose because their fit is uncertain: it decides how many more tasks ask every arm.

The rounds that asked all arms might have been others. Each of a few resamples of them (bootstrap) is fitted
anew, and stands for a world that these rounds do not rule out. The regret is what the plan at hand loses
there against the plan of that world's own fit. This needs no human label. Where the arms are alike, one plan
is as good as another, and the regret is small however little is known about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from camvo.joint.beliefs import Beliefs
from camvo.joint.plans import Worth, caution, expected_along, plan_once
from camvo.joint.votes import VoteRows
from camvo.joint.votes_fit import VotesFit, as_people_prefer, constant_arms
from camvo.state.contribution import LatestRounds
from camvo.state.earlier import Earlier, SkillPrior
from camvo.state.exploration import PatternCounts
from camvo.typing import Array

_FEWEST: Final = 15
"""With fewer rounds that asked all arms the resamples say nothing."""

_RESAMPLES: Final = 4

_UNSEEN: Final = 1.5
"""What plans lose in all, over what the resamples show: all resamples may err alike, as where they follow the
same copies. On the made-up kinds this factor lets a worth of 10 find copies as often as one of 15 did."""

_WORTH: Final = 15.0
"""The worth of a right label in prices of asking all arms, which here have the same price: so all tasks of a
question share one regret, whatever their prices."""


@lru_cache(maxsize=32)
def regret_of_explored(
    explored: PatternCounts,
    arms: tuple[str, ...],
    labels: tuple[str, ...],
    shortlist: tuple[str, ...],
    earlier: Earlier,
) -> float | None:
    """The regret by vote patterns of rounds that asked all arms, and by what earlier projects taught."""
    rows, constant = VoteRows.of(explored.patterns, arms, labels), constant_arms(explored, arms, labels)
    return regret_of(rows, arms, labels, [*map(arms.index, shortlist)], constant, earlier.prior(arms))


def regret_of(  # noqa: PLR0917 - what a fit is made of
    rows: VoteRows,
    arms: Sequence[str],
    labels: Sequence[str],
    positions: Sequence[int],
    constant: tuple[int, ...] = (),
    prior: SkillPrior | None = None,
) -> float | None:
    """Estimate what a plan loses in a task because its fit is uncertain, in right labels.

    Args:
        rows: the votes of the arms; only rounds that asked all of them count.
        arms: the arms, sorted by name.
        labels: the label set.
        positions: the positions of the arms that plans ask.
        constant: those of the arms whose votes have no weight.
        prior: what earlier projects taught.

    Returns:
        ``None`` if too few rounds asked all arms.
    """
    known = rows.counts > 0.0
    patterns, counts = rows.rows[known], rows.counts[known]
    rounds = int(counts.sum())
    if rounds < _FEWEST:
        return None

    def believed(times: Array) -> Beliefs:
        seen = times > 0.0
        among = VoteRows(patterns[seen], times[seen], np.zeros(int(seen.sum())))
        votes = VotesFit.of_rows(among, len(labels), constant, prior)
        votes, _ = as_people_prefer(votes, LatestRounds(), tuple(arms), tuple(labels))
        return votes.beliefs(positions, None, labels)

    prices = (1.0 / (_WORTH * len(arms)),) * len(positions)
    ours = plan_once(believed(counts), tuple([price / caution(rounds) for price in prices]))
    rng, lost = np.random.default_rng(rounds), []
    for _ in range(_RESAMPLES):
        world = believed(rng.multinomial(rounds, counts / counts.sum()).astype(np.float64))
        best = plan_once(world, prices)
        lost.append(_value(world, best, prices) - _value(world, ours, prices))
    return _UNSEEN * max(float(np.mean(lost)), 0.0)


def _value(beliefs: Beliefs, plan: Worth, prices: Sequence[float]) -> float:
    """What a task that follows a plan of the same lattice is worth, in right labels less prices."""
    leads, voted = plan.beliefs.leads, (beliefs.lattice.rows >= 0).any(axis=1)
    right = np.where(voted, beliefs.right[np.arange(len(leads)), leads], 0.0)
    return expected_along(plan, beliefs, [-price for price in prices], right)
