"""The joint policy where skill hangs on the context: found out by itself, and used in plans."""

from __future__ import annotations

import numpy as np
from correlated_votes import draw_correlated_rounds, equal_correlation

from camvo.policies.joint import Joint
from camvo.replays.measures import accuracy
from camvo.replays.replay import replay


def test_on_the_papers_synthetic_data_few_models_are_asked_and_nearly_all_labels_are_right():
    rounds = draw_correlated_rounds(equal_correlation(0.0), rounds=400, seed=3, alpha=0.1)
    table = rounds.draw_votes_table(seed=4)
    trace = replay(Joint(), table, window=32)
    late = np.arange(400) >= 200
    assert accuracy(trace.labels[late], table.truth[late]) >= 0.97
    assert trace.costs[late].mean() <= 0.3 * table.full_cost
