"""Fitting a :class:`camvo.scores.panel.Panel` to votes alone: the most probable ε, ν and σ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from camvo.scores.panel import USUAL_DOUBT, USUAL_SLIP, USUAL_SPREAD, Panel, check_panel_votes
from camvo.scores.panel_likelihood import NODES, WEIGHTS, Likelihood
from camvo.scores.panel_patterns import tabulate_patterns
from camvo.typing import Array
from camvo.weights.near_copies import merge_copies, near_copies_in

_SLIP_SCALE, _DOUBT_SCALE, _SPREAD_SCALE = 1.5, 0.7, 0.5
"""Standard deviations of the normal priors of logit ε, ln ν and ln σ …"""

_REACH = 3.0
"""… and how many of them the search may go: beyond, one very wide σ explains anything by noise."""


def fit_panel(votes: NDArray[np.int64], arms: Sequence[str], labels: int) -> Panel:
    """The panel with the highest posterior density; near-copies take one seat.

    Without votes, and with a single label, it is :meth:`camvo.scores.panel.Panel.usual`. The same votes give
    the same panel whatever their order, up to rounding.

    Args:
        votes: the position of each vote in the label set, shape (n, K); −1 where a model gave none. Rounds
            of which only some were asked belong in as well, as long as what was asked hung on votes alone.
        arms: the names of the K models.
        labels: M, the number of labels.

    Raises:
        InvalidParameterError: the votes have another shape, or one is outside the label set.
    """
    check_panel_votes(votes, arms, labels)
    votes = votes[(votes >= 0).sum(axis=1) > 1]
    if not len(votes) or labels < 2:
        return Panel.usual(arms)
    seats = near_copies_in(votes)
    seen = tabulate_patterns(merge_copies(votes, seats))
    likelihood, voters = Likelihood(seen.rows, labels), seen.rows.shape[1]
    centre = np.append(np.full(voters, logit(USUAL_SLIP)), (np.log(USUAL_DOUBT), np.log(USUAL_SPREAD)))
    scale = np.append(np.full(voters, _SLIP_SCALE), (_DOUBT_SCALE, _SPREAD_SCALE))

    def loss(x: Array) -> tuple[float, Array]:
        slips, doubts = expit(x[:voters]), np.exp(x[voters] + np.exp(x[-1]) * NODES)
        value, by_slip, by_doubt = likelihood.gradient(slips, doubts, WEIGHTS)
        share = seen.counts / value
        by_log_doubt = (share @ by_doubt) * doubts
        slope = np.concatenate(
            (
                (share @ by_slip) * slips * (1.0 - slips),
                (by_log_doubt.sum(), by_log_doubt @ NODES * np.exp(x[-1])),
            )
        )
        off = (x - centre) / scale
        return float(0.5 * off @ off - seen.counts @ np.log(value)), off / scale - slope

    bounds = list(zip(centre - _REACH * scale, centre + _REACH * scale, strict=True))
    x = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds).x
    slips = expit(x[:voters]).tolist()
    return Panel(tuple(arms), seats, tuple(slips), float(np.exp(x[voters])), float(np.exp(x[-1])))
