"""How probably an early label is the label of all votes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from made_up_votes import COINS, made_up_kinds, no_rounds

from camvo.joint.agreement import kept_labels
from camvo.joint.beliefs import form_beliefs
from camvo.joint.votes import renumber

MODELS = {2: COINS, 3: made_up_kinds(3, 3), 5: made_up_kinds(4, 5)}


def from_model(labels):
    model = MODELS[labels]
    return form_beliefs(model, no_rounds(len(model.temper)), labels)


@pytest.mark.parametrize("labels", MODELS)
def test_it_is_the_sum_over_all_votes_that_may_follow(labels):
    beliefs, model = from_model(labels), MODELS[labels]
    arms = len(model.temper)
    whole = np.array([*product(range(labels), repeat=arms)])
    numbered = whole if labels == 2 else renumber(whole)
    right, evidence = model.beliefs(numbered)
    # The label itself that each number of a row stands for.
    at = np.array([[*row].index(leader) for row, leader in zip(numbered, right.argmax(axis=1), strict=True)])
    leader = whole[np.arange(len(whole)), at]
    for node, row in enumerate(beliefs.lattice.rows):
        voted = row >= 0
        if not voted.any():
            continue
        follows = (whole[:, voted] == row[voted]).all(axis=1)
        same = follows & (leader == beliefs.right[node].argmax())
        expected = np.exp(evidence[same]).sum() / np.exp(evidence[follows]).sum()
        assert kept_labels(beliefs)[node] == pytest.approx(expected, abs=1e-9), row


@pytest.mark.parametrize("labels", MODELS)
def test_where_all_arms_have_voted_the_label_is_kept(labels):
    beliefs = from_model(labels)
    whole = (beliefs.lattice.rows >= 0).all(axis=1)
    assert (kept_labels(beliefs)[whole] == 1.0).all()
