"""What is believed at the nodes: from the model alone, and from rounds that passed through them."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import COINS, draw_votes, made_up_kinds, no_rounds, rows_of

from camvo.joint.beliefs import _MODEL_ROUNDS, form_beliefs
from camvo.joint.models import fit_vote_model
from camvo.joint.votes import renumber

MODELS = {1: made_up_kinds(2, 1), 2: COINS, 3: made_up_kinds(3, 3), 6: made_up_kinds(4, 6)}


def from_model(labels):
    model = MODELS[labels]
    return form_beliefs(model, no_rounds(len(model.temper)), labels)


def from_rounds(labels, items=200, seed=0):
    votes, _ = draw_votes(np.array([0.85, 0.7, 0.6, 0.8]), labels=labels, items=items, seed=seed)
    rows = rows_of(votes, labels)
    model = fit_vote_model(rows.rows, rows.counts, labels, np.ones(4))
    return form_beliefs(model, rows, labels), votes, model


@pytest.mark.parametrize("labels", MODELS)
def test_the_votes_of_every_step_sum_to_one(labels):
    for level in from_model(labels).votes:
        for votes in level:
            np.testing.assert_allclose(votes.sum(axis=0), 1.0)


@pytest.mark.parametrize("labels", [2, 3, 7])
def test_they_sum_to_one_with_rounds_too(labels):
    beliefs, _, _ = from_rounds(labels)
    for level in beliefs.votes:
        for votes in level:
            np.testing.assert_allclose(votes.sum(axis=0), 1.0)
            assert (votes >= 0.0).all()


@pytest.mark.parametrize("labels", [2, 3, 6])
def test_without_rounds_they_are_the_models(labels):
    beliefs = from_model(labels)
    right, _ = MODELS[labels].beliefs(beliefs.lattice.rows)
    np.testing.assert_allclose(beliefs.right, right)


@pytest.mark.parametrize("labels", [2, 3, 6])
def test_asking_is_not_expected_to_change_what_is_believed(labels):
    """The probability of a label is a martingale: no vote of an independent arm moves it on average."""
    beliefs = from_model(labels)
    for level, level_votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            after = beliefs.right[np.maximum(step.following, 0)]
            before = beliefs.right[step.nodes]
            renamed = _by_the_numbers_before(beliefs.lattice, step, after)
            expected = (votes[:, :, None] * renamed).sum(axis=0)
            voted = before > 0.0
            np.testing.assert_allclose(expected[voted], before[voted])


def _by_the_numbers_before(lattice, step, after):
    """Labels are numbered by first appearance, so a vote of an earlier arm can renumber them."""
    if lattice.named:
        return after
    out = np.zeros_like(after)
    for number, node in np.argwhere(step.following >= 0):
        before = lattice.rows[step.nodes[node]].copy()
        before[step.arm] = number
        row = lattice.rows[step.following[number, node]]
        for old, new in {(o, n) for o, n in zip(before.tolist(), row.tolist(), strict=True) if o >= 0}:
            out[number, node, old] = after[number, node, new]
    return out


@pytest.mark.parametrize("labels", [2, 3, 7])
def test_a_node_blends_the_model_with_the_rounds_that_passed_through_it(labels):
    """Counted again, round by round, at every node."""
    beliefs, votes, model = from_rounds(labels, items=40)
    lattice = beliefs.lattice
    whole = votes if labels == 2 else renumber(votes)
    final = model.beliefs(whole)[0]
    at_node = model.beliefs(lattice.rows)[0]
    for node, row in enumerate(lattice.rows):
        voted = np.flatnonzero(row >= 0)
        if not len(voted):
            continue
        masked = np.full_like(votes, -2)
        masked[:, voted] = votes[:, voted]
        passed = ((masked if labels == 2 else renumber(masked)) == row).all(axis=1)
        for number in range(row.max() + 1 if labels != 2 else 2):
            if labels == 2:
                truths = final[passed, number]
            else:
                arm = voted[row[voted] == number][0]
                truths = final[np.flatnonzero(passed), whole[passed, arm]]
            expected = (truths.sum() + _MODEL_ROUNDS * at_node[node, number]) / (passed.sum() + _MODEL_ROUNDS)
            assert beliefs.right[node, number] == pytest.approx(expected)


def test_a_correction_by_human_labels_is_applied_at_every_node():
    flat = form_beliefs(COINS, no_rounds(3), 2, lambda rows, right: np.full(right.shape, 0.5))
    assert (flat.right == 0.5).all()
    assert (flat.surest == 0.5).all()
