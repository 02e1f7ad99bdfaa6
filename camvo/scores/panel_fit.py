"""Fitting the panel to votes alone: the most probable ε, ν and σ (maximum a posteriori)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from camvo.scores.near_copies import merge_copies, near_copies_in
from camvo.scores.panel import PRIOR_DOUBT, PRIOR_SLIP, PRIOR_SPREAD, Panel, check_panel_votes
from camvo.scores.panel_likelihood import NODES, WEIGHTS, PatternLikelihood
from camvo.scores.panel_patterns import tabulate_patterns
from camvo.typing import Array

_SLIP_SCALE, _DOUBT_SCALE, _SPREAD_SCALE = 1.5, 0.7, 0.5
"""The standard deviations of the normal priors of logit ε, ln ν and ln σ."""

_SEARCH_RADIUS = 3.0
"""The search is limited to this many prior standard deviations: a very large σ would explain any votes."""


def fit_panel(votes: NDArray[np.int64], arms: Sequence[str], labels: int) -> Panel:
    """Fit the panel with the highest posterior density; near-copies share a seat.

    Without votes, or with a single label, the result is :meth:`camvo.scores.panel.Panel.prior`. The order of
    the rounds does not matter, up to rounding.

    Args:
        votes: label positions, shape (n, K); −1 for no vote. Rounds in which only some models were asked may
            be included, if the choice of models depended on votes alone.
        arms: the names of the K models.
        labels: M, the number of labels.

    Raises:
        InvalidParameterError: the votes have another shape, or a vote is outside the label set.
    """
    check_panel_votes(votes, arms, labels)
    votes = votes[(votes >= 0).sum(axis=1) > 1]
    if not len(votes) or labels < 2:
        return Panel.prior(arms)
    seats = near_copies_in(votes)
    table = tabulate_patterns(merge_copies(votes, seats))
    likelihood, voters = PatternLikelihood(table.rows, labels), table.rows.shape[1]
    centre = np.append(np.full(voters, logit(PRIOR_SLIP)), (np.log(PRIOR_DOUBT), np.log(PRIOR_SPREAD)))
    scale = np.append(np.full(voters, _SLIP_SCALE), (_DOUBT_SCALE, _SPREAD_SCALE))

    def loss(x: Array) -> tuple[float, Array]:
        slips, doubts = expit(x[:voters]), np.exp(x[voters] + np.exp(x[-1]) * NODES)
        value, by_slip, by_doubt = likelihood.gradient(slips, doubts, WEIGHTS)
        share = table.counts / value
        by_log_doubt = (share @ by_doubt) * doubts
        slope = np.concatenate(
            (
                (share @ by_slip) * slips * (1.0 - slips),
                (by_log_doubt.sum(), by_log_doubt @ NODES * np.exp(x[-1])),
            )
        )
        deviation = (x - centre) / scale
        return float(0.5 * deviation @ deviation - table.counts @ np.log(value)), deviation / scale - slope

    radius = _SEARCH_RADIUS * scale
    bounds = list(zip(centre - radius, centre + radius, strict=True))
    x = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x
    slips = expit(x[:voters]).tolist()
    return Panel(tuple(arms), seats, tuple(slips), float(np.exp(x[voters])), float(np.exp(x[-1])))
