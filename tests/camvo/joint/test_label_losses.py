"""Labels that are not worth the same: answers and plans, beside a naive recursion over all votes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from made_up_votes import COINS, SKILLED, draw_votes, joint_probabilities, mass, no_rounds, rows_of

from camvo.joint.beliefs import form_beliefs
from camvo.joint.label_losses import (
    _classes,
    _split_lattice,
    answer_values,
    arms_in_plan,
    plan_node,
    weighed,
)
from camvo.joint.lattice import most_arms
from camvo.joint.models import fit_vote_model
from camvo.joint.plans import plan_by_graded_worth, plan_by_worth
from camvo.stages.stages import _plan_by_stages

PRICES = (0.01, 0.03, 0.002)
NAMES = ("a", "b", "c", "d", "e", "f")


def losses_of(*each):
    return tuple(zip(NAMES, each, strict=False))


def value(table, losses, seen, prices):
    """The value of acting best after the votes ``seen`` (arm → label): 1 − what is expected to be lost."""
    weights = np.zeros(len(losses))
    for (z, votes), probability in table.items():
        if all(votes[arm] == vote for arm, vote in seen.items()):
            weights[z] += probability
    missed = losses * weights / weights.sum()
    stop = 1.0 - (missed.sum() - missed.max()) if seen else -np.inf
    asking = [
        sum(
            share * value(table, losses, {**seen, arm: vote}, prices)
            for vote in range(len(losses))
            if (share := mass(table, {**seen, arm: vote}) / weights.sum()) > 0.0
        )
        - prices[arm]
        for arm in range(3)
        if arm not in seen
    ]
    return max(stop, *asking) if asking else stop


SEEN = [{}, {0: 0}, {1: 1}, {0: 0, 2: 1}, {1: 1, 2: 1}, {0: 1, 1: 0}]


@pytest.mark.parametrize("prices", [PRICES, (0.2, 0.3, 0.4), (0.02, 0.05, 0.0)])
@pytest.mark.parametrize(
    ("model", "each"),
    [(COINS, (3.0, 1.0)), (COINS, (0.5, 20.0)), (SKILLED, (4.0, 1.0, 1.0)), (SKILLED, (4.0, 9.0, 1.0))],
    ids=["two labels", "far apart", "one of three", "three"],
)
def test_the_plans_value_is_that_of_the_recursion(model, each, prices):
    labels, losses = NAMES[: len(each)], losses_of(*each)
    beliefs = form_beliefs(model, no_rounds(3), len(labels))
    plan = plan_by_worth(weighed(beliefs, labels, losses), prices)
    table = joint_probabilities(model, len(labels))
    for seen in SEEN:
        named = (
            sorted({*seen.values()})
            if len(labels) == 2
            else [*dict.fromkeys(dict(sorted(seen.items())).values())]
        )
        if len(labels) == 2:
            row, names = tuple(seen.get(arm, -2) for arm in range(3)), []
        else:
            row = tuple(named.index(seen[arm]) if arm in seen else -2 for arm in range(3))
            names = [labels[label] for label in named]
        node = plan_node(beliefs, row, names, labels, losses)
        found = max(float(plan.stopping[node]), float(plan.asking[node].max()))
        assert found == pytest.approx(value(table, np.array(each), seen, prices), abs=1e-9)


def fitted(labels, arms=4, seed=0):
    skill = np.linspace(0.9, 0.6, arms)
    votes, _ = draw_votes(skill, labels=labels, items=300, seed=seed)
    rows = rows_of(votes, labels)
    return form_beliefs(fit_vote_model(rows.rows, rows.counts, labels, np.ones(arms)), rows, labels)


@pytest.mark.parametrize("labels", [2, 3, 6])
def test_equal_losses_scale_the_gains_of_todays_plan(labels):
    beliefs, prices = fitted(labels), (0.03, 0.01, 0.005, 0.002)
    today = plan_by_worth(beliefs, prices)
    both = weighed(beliefs, NAMES[:labels], losses_of(*[2.0] * labels))
    plan = plan_by_worth(both, tuple(2.0 * price for price in prices))
    rows = both.lattice.rows.tolist()
    nodes = [beliefs.lattice.node_of[tuple(row)] for row in rows]
    assert (plan.next_arm == today.next_arm[nodes]).all()
    voted = np.isfinite(plan.stopping)
    assert plan.stopping[voted] == pytest.approx(2.0 * today.stopping[nodes][voted] - 1.0)


def test_no_losses_leave_the_beliefs_as_they_are():
    beliefs = fitted(3)
    assert weighed(beliefs, NAMES[:3], ()) is beliefs


@pytest.mark.parametrize("each", [(5.0, 1.0, 1.0), (5.0, 2.0, 1.0, 1.0, 1.0), (3.0, 3.0, 1.0, 1.0)])
def test_votes_after_a_node_have_the_probability_one(each):
    labels = NAMES[: len(each)]
    both = weighed(fitted(len(each)), labels, losses_of(*each))
    for level, level_votes in zip(both.lattice.steps, both.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            assert votes.sum(axis=0) == pytest.approx(1.0)
            assert (votes[step.following < 0] == 0.0).all()


@pytest.mark.parametrize("each", [(5.0, 1.0, 1.0), (5.0, 2.0, 1.0, 1.0, 1.0), (1.0,) * 6])
@pytest.mark.parametrize("arms", [1, 3, 5])
def test_the_arms_of_a_plan_are_those_whose_nodes_fit(each, arms):
    labels, losses = NAMES[: len(each)], losses_of(*each)
    nodes = len(_split_lattice(arms, len(each), _classes(labels, losses)[1]).lattice.rows)
    assert arms_in_plan(labels, losses, nodes) == arms
    assert arms_in_plan(labels, losses, nodes - 1) == max(arms - 1, 1)


def test_a_plan_holds_as_many_arms_as_today_without_losses_and_with_two_labels():
    assert arms_in_plan(NAMES, ()) == most_arms(6)
    assert arms_in_plan(NAMES[:2], losses_of(3.0, 1.0)) == most_arms(2)


@pytest.mark.parametrize("each", [(5.0, 1.0), (5.0, 2.0, 1.0)])
def test_a_plan_with_confidences_that_say_nothing_is_the_plan_without(each):
    both = weighed(fitted(len(each), arms=3), NAMES[: len(each)], losses_of(*each))
    prices = (0.03, 0.01, 0.005)
    plain, graded = (
        plan_by_worth(both, prices),
        plan_by_graded_worth(both, prices, (((((0.0, 1.0, 1.0),)),),) * 3),
    )
    for node in range(1, len(both.right)):
        stopping, asking = graded.at(node, 0.0)
        assert stopping == pytest.approx(plain.stopping[node], abs=1e-9)
        assert asking == pytest.approx(plain.asking[node].tolist(), abs=0.02)


def test_with_as_many_stages_as_arms_the_stages_are_the_plan():
    both = weighed(fitted(3, arms=3), NAMES[:3], losses_of(6.0, 1.0, 1.0))
    prices = (0.03, 0.01, 0.005)
    plan, stages = plan_by_worth(both, prices), _plan_by_stages(both, prices, 3)
    found = np.maximum(plan.stopping, plan.asking.max(axis=1))
    assert np.maximum(stages.value, -9.0)[1:] == pytest.approx(found[1:], abs=0.01)


def test_the_answer_loses_least():
    values = answer_values({"a": 0.2, "b": 0.5, "c": 0.3}, losses_of(5.0, 1.0, 1.0))
    assert max(values, key=values.get) == "a"
    assert values["a"] == pytest.approx(1.0 - 0.8)
    assert values["b"] == pytest.approx(1.0 - 1.3)


def test_a_label_that_is_worth_more_is_still_the_answer_wherever_it_was():
    rng = np.random.default_rng(0)
    for _ in range(200):
        probabilities = dict(zip(NAMES, rng.dirichlet(np.full(6, 0.5)).tolist(), strict=True))
        each = rng.uniform(0.5, 5.0, 6)
        before = answer_values(probabilities, losses_of(*each))
        each[2] *= rng.uniform(1.0, 9.0)
        after = answer_values(probabilities, losses_of(*each))
        if max(before, key=before.get) == "c":
            assert max(after, key=after.get) == "c"


def test_labels_may_be_renamed():
    beliefs, prices = fitted(3), (0.03, 0.01, 0.005, 0.002)
    one = plan_by_worth(weighed(beliefs, ("a", "b", "c"), losses_of(5.0, 1.0, 2.0)), prices)
    other = plan_by_worth(weighed(beliefs, ("b", "c", "a"), losses_of(2.0, 5.0, 1.0)), prices)
    renamed = {"a": "b", "b": "c", "c": "a"}
    for row in product((-2, 0, 1), repeat=4):
        names = [*dict.fromkeys(number for number in row if number >= 0)]
        if names != [*range(len(names))]:
            continue
        for labels in product("abc", repeat=len(names)):
            if len(set(labels)) < len(labels):
                continue
            nodes = [
                plan_node(beliefs, row, labels, ("a", "b", "c"), losses_of(5.0, 1.0, 2.0)),
                plan_node(
                    beliefs,
                    row,
                    [renamed[label] for label in labels],
                    ("b", "c", "a"),
                    losses_of(2.0, 5.0, 1.0),
                ),
            ]
            assert one.next_arm[nodes[0]] == other.next_arm[nodes[1]]
