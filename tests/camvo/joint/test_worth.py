"""The best plan, beside a naive recursion over all votes."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import (
    COINS,
    SKILLED,
    draw_votes,
    joint_probabilities,
    mass,
    no_rounds,
    rows_of,
)

from camvo.joint.beliefs import form_beliefs
from camvo.joint.models import fit_vote_model
from camvo.joint.plans import plan_by_worth
from camvo.numerics.small import TIE

PRICES = (0.01, 0.03, 0.002)


def value(table, labels, seen, prices):
    """The value of acting best after the votes ``seen`` (arm → label), in right labels."""
    weights = np.zeros(labels)
    for (z, votes), probability in table.items():
        if all(votes[arm] == vote for arm, vote in seen.items()):
            weights[z] += probability
    stop = weights.max() / weights.sum() if seen else -np.inf
    asking = [
        sum(
            share * value(table, labels, {**seen, arm: vote}, prices)
            for vote in range(labels)
            if (share := mass(table, {**seen, arm: vote}) / weights.sum()) > 0.0
        )
        - prices[arm]
        for arm in range(3)
        if arm not in seen
    ]
    return max(stop, *asking) if asking else stop


@pytest.mark.parametrize("prices", [PRICES, (0.0, 0.0, 0.0), (0.2, 0.3, 0.4), (0.02, 0.05, 0.0)])
@pytest.mark.parametrize(("model", "labels"), [(COINS, 2), (SKILLED, 3)], ids=["two labels", "three labels"])
def test_the_plans_value_is_that_of_the_recursion(model, labels, prices):
    worth = plan_by_worth(form_beliefs(model, no_rounds(3), labels), prices)
    table = joint_probabilities(model, labels)
    lattice = worth.beliefs.lattice
    for row, seen in [((-2, -2, -2), {}), ((0, -2, -2), {0: 0}), ((0, -2, 1), {0: 0, 2: 1})]:
        node = lattice.node_of[row]
        found = max(float(worth.stopping[node]), float(worth.asking[node].max()))
        assert found == pytest.approx(value(table, labels, seen, prices), abs=1e-9)


def rounds_plan(labels, prices, seed=0):
    votes, _ = draw_votes(np.array([0.9, 0.75, 0.7, 0.65]), labels=labels, items=300, seed=seed)
    rows = rows_of(votes, labels)
    model = fit_vote_model(rows.rows, rows.counts, labels, np.ones(4))
    return plan_by_worth(form_beliefs(model, rows, labels), prices)


def expectimax(worth, prices):
    """The same plan by a recursion over the beliefs, one node at a time."""
    lattice, votes_of, done = worth.beliefs.lattice, {}, {}
    for level, level_votes in zip(lattice.steps, worth.beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            for position, node in enumerate(step.nodes.tolist()):
                votes_of[node, step.arm] = (step.following[:, position], votes[:, position])

    def best(node):
        if node not in done:
            stop = worth.beliefs.right[node].max() if (lattice.rows[node] >= 0).any() else -np.inf
            done[node] = stop
            for arm in np.flatnonzero(lattice.rows[node] < 0).tolist():
                votes = zip(*votes_of[node, arm], strict=True)
                asking = sum(chance * best(after) for after, chance in votes if after >= 0) - prices[arm]
                done[node] = max(done[node], asking)
        return done[node]

    return [best(node) for node in range(len(lattice.rows))]


@pytest.mark.parametrize("labels", [2, 3, 6])
def test_backward_induction_is_the_naive_recursion(labels):
    prices = (0.03, 0.01, 0.005, 0.002)
    worth = rounds_plan(labels, prices)
    found = np.maximum(worth.stopping, worth.asking.max(axis=1))
    np.testing.assert_allclose(found, expectimax(worth, prices), atol=1e-9)


def test_somebody_is_always_asked():
    worth = rounds_plan(3, (5.0, 6.0, 7.0, 8.0))
    assert worth.next_arm[0] == 0
    assert (worth.next_arm[1:] == -1).all()


@pytest.mark.parametrize("arm", range(4))
def test_an_arm_that_gets_cheaper_lowers_the_value_of_no_node(arm):
    prices = np.array([0.02, 0.01, 0.02, 0.02])
    cheaper = np.where(np.arange(4) == arm, 0.0, prices)
    before, after = (rounds_plan(3, tuple(of.tolist())) for of in (prices, cheaper))
    assert (after.asking >= before.asking - TIE).all()


@pytest.mark.parametrize("labels", [2, 4])
def test_a_right_label_that_is_worth_more_is_never_bought_with_fewer_votes(labels):
    dear, cheap = rounds_plan(labels, (0.1, 0.05, 0.02, 0.01)), rounds_plan(labels, (1e-3, 5e-4, 2e-4, 1e-4))
    assert (dear.next_arm >= 0).sum() <= (cheap.next_arm >= 0).sum()


def test_arms_that_are_asked_together_are_asked_whatever_the_first_votes():
    worth = rounds_plan(3, (0.01, 0.002, 0.002, 0.002))
    lattice = worth.beliefs.lattice
    for node in range(len(lattice.rows)):
        frontier = [node]
        for arm in worth.together(node):
            assert set(worth.next_arm[frontier].tolist()) == {arm}
            frontier = [n for n in lattice.after[arm][:, frontier].ravel().tolist() if n >= 0]
        assert (
            not worth.together(node)
            or len(set(worth.next_arm[frontier].tolist())) > 1
            or (worth.next_arm[frontier] == -1).all()
        )


def test_the_next_arm_is_the_best_where_asking_beats_stopping():
    worth = rounds_plan(4, (0.01, 0.005, 0.003, 0.002))
    asks = worth.next_arm >= 0
    best = worth.asking.max(axis=1)
    assert (best[asks] > worth.stopping[asks] + TIE).all()
    assert (best[~asks] <= worth.stopping[~asks] + TIE).all()
    at = np.flatnonzero(asks)
    np.testing.assert_array_equal(worth.asking[at, worth.next_arm[at]], best[at])
