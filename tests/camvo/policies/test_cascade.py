from __future__ import annotations

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.policies.policy import Observation
from camvo.policies.rivals import Cascade
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

LABELS = ("yes", "no")
COSTS = {"dear": 3.0, "mid": 2.0, "cheap": 1.0}


def taught(share=0.8, rounds=50):
    """Every model was right in this share of the rounds."""
    state = State(1)
    for number in range(rounds):
        reward = float(number < share * rounds)
        state.add(Contribution(np.ones(1), tuple(Change(arm, 0.5, None, reward) for arm in sorted(COSTS))))
    return state


def asked(threshold, votes, state=None):
    """The models in the order in which they were asked, and the decision."""
    policy = Cascade(threshold=threshold)
    plan = policy.plan({"q": Observation(state or taught(), np.ones(1), LABELS)}, COSTS)
    cast = {}
    while wanted := policy.ask(plan, cast):
        for arm in wanted:
            cast[arm] = {"q": votes[arm]} if votes[arm] else {}
    return list(cast), policy.decide(plan, cast)


def test_the_cheapest_model_alone_is_asked_where_its_score_is_enough():
    assert asked(0.7, dict.fromkeys(COSTS, "yes"))[0] == ["cheap"]


def test_a_second_model_is_asked_where_the_first_is_not_enough():
    assert asked(0.9, dict.fromkeys(COSTS, "yes"))[0] == ["cheap", "mid"]


def test_a_disagreement_is_settled_by_the_next_model():
    order, decisions = asked(0.75, {"cheap": "yes", "mid": "no", "dear": "no"})
    assert order == ["cheap"]
    order, decisions = asked(0.9, {"cheap": "yes", "mid": "no", "dear": "no"})
    assert (order, decisions["q"].label) == (["cheap", "mid", "dear"], "no")


def test_everyone_is_asked_where_no_score_is_enough():
    assert asked(1.0, dict.fromkeys(COSTS, "yes"))[0] == ["cheap", "mid", "dear"]


def test_a_model_without_an_answer_is_followed_by_the_next():
    assert asked(0.7, {"cheap": None, "mid": "yes", "dear": "yes"})[0] == ["cheap", "mid"]


def test_the_score_that_is_enough_is_that_of_the_decision():
    for threshold in (0.6, 0.75, 0.9, 0.97):
        order, decisions = asked(threshold, dict.fromkeys(COSTS, "yes"))
        assert decisions["q"].score >= threshold or len(order) == len(COSTS)


def test_it_goes_on_while_any_question_of_the_task_is_below_the_threshold():
    policy, doubtful = Cascade(threshold=0.7), taught(share=0.55)
    observations = {
        "q": Observation(taught(), np.ones(1), LABELS),
        "r": Observation(doubtful, np.ones(1), LABELS),
    }
    plan = policy.plan(observations, COSTS)
    assert policy.ask(plan, {"cheap": {"q": "yes", "r": "yes"}}) == ("mid",)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_is_a_probability(threshold):
    with pytest.raises(InvalidParameterError, match="probability"):
        Cascade(threshold=threshold)
