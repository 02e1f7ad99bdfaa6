from __future__ import annotations

import json

import numpy as np
import pytest

from camvo.stages.rule import Rule
from camvo.stages.stages import Path, Stages, propensities, teachers, throw
from camvo.state.vote_patterns import UNASKED

ORDER = ("tiny", "small", "large", "huge")
WEIGHTS = (0.6, 0.7, 0.8, 0.9)
CERTAIN = Rule(2, ({}, {}), certain=True)
LEARNED = Rule(2, ({(0, 0): 2, (0, 1): 3}, {(0, 1, 1): 3}), certain=False, error=0.004, price=9.0)


def stages(coin="nobody", **paths):
    return Stages(ORDER, coin, (0.1, 0.5), paths or {"q": Path(WEIGHTS, LEARNED)})


def votes(*labels, question="q"):
    return {
        arm: {} if label is None else {question: label} for arm, label in zip(ORDER, labels, strict=False)
    }


def test_the_first_stage_is_asked_whatever_the_votes():
    assert stages().ask({}) == ("tiny", "small")
    assert stages().ask(votes("x")) == ("small",)


def test_a_learned_stop_ends_before_anything_is_certain():
    assert stages().ask(votes("x", "x")) == ()


def test_a_certain_rule_asks_on_after_the_same_votes():
    assert stages(q=Path(WEIGHTS, CERTAIN)).ask(votes("x", "x")) == ("large",)


def test_a_certificate_ends_the_asking_and_a_failed_model_brings_it_nearer():
    certain = stages(q=Path(WEIGHTS, CERTAIN))
    assert certain.ask(votes("x", "y", "x")) == ("huge",)
    assert certain.ask(votes("x", "x", "x")) == ()
    assert certain.ask(votes("x", None, "x")) == ()


def test_different_votes_are_asked_on_as_the_rule_says():
    assert stages().ask(votes("x", "y")) == ("large",)
    assert stages().ask(votes("x", "y", "y")) == ()
    assert stages().ask(votes("x", "y", "z")) == ("huge",)


def test_a_task_goes_on_while_one_of_its_questions_wants_to():
    both = stages(q=Path(WEIGHTS, LEARNED), p=Path(WEIGHTS, LEARNED))
    agreed = {arm: {"q": "x", "p": "x"} for arm in ORDER[:2]}
    assert both.ask(agreed) == ()
    assert both.ask({**agreed, "small": {"q": "x", "p": "y"}}) == ("large",)


def test_a_coin_for_everyone_asks_everyone_at_once():
    assert stages("everyone", q=Path(WEIGHTS, CERTAIN)).ask({}) == ORDER


def test_only_a_coins_round_is_a_probe():
    given = votes("x", "x", "x")
    assert stages().probe("q", given) is None
    probe = stages("certificate", q=Path(WEIGHTS, CERTAIN)).probe("q", given)
    assert dict(zip(probe.pattern.arms, probe.pattern.groups, strict=True)) == {
        "tiny": 0,
        "small": 0,
        "large": 0,
        "huge": UNASKED,
    }


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (votes("x", "x", "x"), True),
        (votes("x", "x", "y", "y"), False),
        (votes("x", "y", "y", "y"), True),
        (votes("x", "y", "z", "x"), True),
    ],
    ids=["the label of all", "overruled later", "asked on, rightly", "it would have asked everyone"],
)
def test_a_probe_says_whether_the_learned_stop_would_have_been_right(given, right):
    tried = stages("certificate", q=Path(WEIGHTS, CERTAIN, LEARNED))
    assert tried.probe("q", given).right is right


def test_without_a_learned_stop_there_is_nothing_to_try():
    assert stages("certificate", q=Path(WEIGHTS, CERTAIN)).probe("q", votes("x", "x", "x")).right is None


def test_rewards_come_from_models_that_were_not_asked_because_of_the_votes():
    assert teachers(ORDER, 2, human=False) == frozenset()
    assert teachers(ORDER, 2, human=True) == {"tiny", "small"}
    assert teachers(ORDER, 4, human=False) == set(ORDER)


def test_a_coin_falls_evenly_and_the_same_way_each_time():
    context = np.random.default_rng(0).normal(size=3)
    thrown = [throw([context], rounds) for rounds in range(2000)]
    assert thrown == [throw([context], rounds) for rounds in range(2000)]
    assert np.histogram(thrown, bins=4, range=(0.0, 1.0))[0] == pytest.approx([500] * 4, abs=80)


def test_exploration_fades_but_never_ends():
    everyone, certificate = np.array([propensities(rounds) for rounds in range(20_000)]).T
    assert everyone[0] == certificate[0] == 1.0
    assert np.all(np.diff(everyone) <= 0.0)
    assert np.all(everyone <= certificate)
    assert everyone[14_000 - 1] > 0.0
    assert everyone[:14_000].sum() == pytest.approx(6 * 14_000 ** (1 / 3), rel=0.1)
    assert certificate[:14_000].sum() == pytest.approx(16 * 14_000**0.5, rel=0.1)


def test_the_stages_of_a_question_are_json():
    described = stages("certificate", q=Path(WEIGHTS, CERTAIN, LEARNED)).describe("q")["stages"]
    assert json.loads(json.dumps(described)) == described
    assert (described["coin"], described["propensity"], described["first"]) == ("certificate", [0.1, 0.5], 2)
