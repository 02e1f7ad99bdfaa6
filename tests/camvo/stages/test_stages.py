from __future__ import annotations

import json

import pytest

from camvo.stages.agreement_stages import AgreementStages
from camvo.stages.ordered_stages import OrderedStages
from camvo.stages.stages import teachers
from camvo.stages.stopping_rule import StoppingRule
from camvo.state.vote_patterns import UNASKED

ORDER = ("tiny", "small", "large", "huge")
WEIGHTS = (0.6, 0.7, 0.8, 0.9)
CERTAIN = StoppingRule(2, ({}, {}), certain=True)
LEARNED = StoppingRule(2, ({(0, 0): 2, (0, 1): 3}, {(0, 1, 1): 3}), certain=False, error=0.004, price=9.0)


def stages(exploration="nobody", **questions):
    questions = questions or {"q": AgreementStages(WEIGHTS, LEARNED)}
    return OrderedStages(
        order=ORDER, exploration=exploration, propensity=(0.1, 0.5), questions=questions, moves=2
    )


def cast(votes):
    """The votes on the question "q": arm → label, ``None`` if it gave none."""
    return {arm: answers.get("q") for arm, answers in votes.items()}


def votes(*labels, question="q"):
    return {
        arm: {} if label is None else {question: label} for arm, label in zip(ORDER, labels, strict=False)
    }


def test_the_first_stage_is_asked_whatever_the_votes():
    assert stages().after({}) == ("tiny", "small")
    assert stages().after(votes("x")) == ("small",)


def test_a_learned_rule_stops_before_the_label_is_certain():
    assert stages().after(votes("x", "x")) == ()


def test_a_certain_rule_goes_on_after_the_same_votes():
    assert stages(q=AgreementStages(WEIGHTS, CERTAIN)).after(votes("x", "x")) == ("large",)


def test_asking_ends_at_a_certain_label_and_a_failed_model_makes_it_certain_earlier():
    certain = stages(q=AgreementStages(WEIGHTS, CERTAIN))
    assert certain.after(votes("x", "y", "x")) == ("huge",)
    assert certain.after(votes("x", "x", "x")) == ()
    assert certain.after(votes("x", None, "x")) == ()


def test_divided_votes_go_on_as_the_rule_says():
    assert stages().after(votes("x", "y")) == ("large",)
    assert stages().after(votes("x", "y", "y")) == ()
    assert stages().after(votes("x", "y", "z")) == ("huge",)


def test_a_task_goes_on_while_one_of_its_questions_needs_more_votes():
    both = stages(q=AgreementStages(WEIGHTS, LEARNED), p=AgreementStages(WEIGHTS, LEARNED))
    agreed = {arm: {"q": "x", "p": "x"} for arm in ORDER[:2]}
    assert both.after(agreed) == ()
    assert both.after({**agreed, "small": {"q": "x", "p": "y"}}) == ("large",)


def test_exploration_of_all_models_asks_them_all_at_once():
    assert stages("everyone", q=AgreementStages(WEIGHTS, CERTAIN)).after({}) == ORDER


def test_only_an_exploration_round_leaves_its_vote_pattern():
    agreed = cast(votes("x", "x", "x"))
    assert stages().exploration_round("q", agreed) is None
    explored = stages("certificate", q=AgreementStages(WEIGHTS, CERTAIN)).exploration_round("q", agreed)
    assert dict(zip(explored.pattern.arms, explored.pattern.groups, strict=True)) == {
        "tiny": 0,
        "small": 0,
        "large": 0,
        "huge": UNASKED,
    }


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        (votes("x", "x", "x"), True),
        (votes("x", "x", "y", "y"), False),
        (votes("x", "y", "y", "y"), True),
        (votes("x", "y", "z", "x"), True),
    ],
    ids=["right at once", "overruled later", "right after going on", "would have asked all arms"],
)
def test_an_exploration_round_shows_whether_the_learned_rule_would_have_been_right(answers, right):
    tested = stages("certificate", q=AgreementStages(WEIGHTS, CERTAIN, LEARNED))
    assert tested.exploration_round("q", cast(answers)).right is right


def test_without_a_learned_rule_an_exploration_round_tests_none():
    certain = stages("certificate", q=AgreementStages(WEIGHTS, CERTAIN))
    assert certain.exploration_round("q", cast(votes("x", "x", "x"))).right is None


def test_rewards_come_from_models_that_were_not_asked_because_of_the_votes():
    assert teachers(ORDER, 2, human=False) == frozenset()
    assert teachers(ORDER, 2, human=True) == {"tiny", "small"}
    assert teachers(ORDER, 4, human=False) == set(ORDER)


def test_the_stages_of_a_question_are_json():
    described = stages("certificate", q=AgreementStages(WEIGHTS, CERTAIN, LEARNED)).describe("q")["stages"]
    assert json.loads(json.dumps(described)) == described
    assert (described["coin"], described["propensity"], described["first"]) == ("certificate", [0.1, 0.5], 2)
