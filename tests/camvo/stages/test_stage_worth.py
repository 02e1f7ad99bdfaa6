"""Which arms to ask together where only a few stages are left."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import COINS, made_up_kinds, no_rounds

from camvo.joint.beliefs import form_beliefs
from camvo.joint.plans import plan_by_worth, rounded
from camvo.stages.stages import _plan_by_stages

MODELS = {2: COINS, 3: made_up_kinds(3, 3), 5: made_up_kinds(4, 5)}
PRICES = (0.03, 0.01, 0.002, 0.005)


def beliefs_of(labels):
    return form_beliefs(MODELS[labels], no_rounds(len(MODELS[labels].temper)), labels)


def prices_of(beliefs):
    return rounded(PRICES[: beliefs.lattice.rows.shape[1]])


def value_by_worth(beliefs):
    plan = plan_by_worth(beliefs, prices_of(beliefs))
    return np.maximum(plan.stopping, plan.asking.max(axis=1))


@pytest.mark.parametrize("labels", MODELS)
@pytest.mark.parametrize("more", [0, 1, 5])
def test_with_a_stage_for_every_arm_it_is_worth_as_much_as_asking_one_after_another(labels, more):
    beliefs = beliefs_of(labels)
    plan = _plan_by_stages(beliefs, prices_of(beliefs), beliefs.lattice.rows.shape[1] + more)
    assert plan.value == pytest.approx(value_by_worth(beliefs), abs=1e-9)


@pytest.mark.parametrize("labels", MODELS)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_it_asks_wherever_a_vote_is_worth_more_than_stopping(labels, stages):
    beliefs = beliefs_of(labels)
    plan = _plan_by_stages(beliefs, prices_of(beliefs), stages)
    alone = plan_by_worth(beliefs, prices_of(beliefs))
    for node, row in enumerate(beliefs.lattice.rows):
        allowed = np.flatnonzero(row < 0).tolist()
        asks = plan.together(node, allowed) != ()
        if stages >= len(allowed):
            assert asks == (alone.next_arm[node] >= 0), row
        if asks:
            assert alone.next_arm[node] >= 0, row


@pytest.mark.parametrize("labels", MODELS)
def test_more_stages_are_worth_no_less(labels):
    beliefs = beliefs_of(labels)
    values = [_plan_by_stages(beliefs, prices_of(beliefs), stages).value for stages in (1, 2, 3)]
    assert (values[1] >= values[0] - 1e-12).all()
    assert (values[2] >= values[1] - 1e-12).all()


def test_an_arm_that_gave_no_vote_is_not_asked_again():
    beliefs = beliefs_of(3)
    plan = _plan_by_stages(beliefs, prices_of(beliefs), 2)
    first = plan.together(0, [0, 1, 2])
    left = [arm for arm in (0, 1, 2) if arm not in first]
    assert not set(plan.together(0, left)) & set(first)
