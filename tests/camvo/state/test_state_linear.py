"""A state without the linear models of the context: the same sums but for A⁻¹ and b."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_votes import SyntheticModel, draw_votes_table

from camvo.errors import InvalidParameterError, SnapshotError
from camvo.policies.camvo import CaMVo
from camvo.policies.joint import Joint
from camvo.policies.named import POLICIES
from camvo.policies.policy import Observation
from camvo.questions import Question
from camvo.replays import lookahead
from camvo.replays.replay import replay
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.numbers import NumericVote

D = 200
MODELS = {"a": SyntheticModel(0.9, 4.0), "b": SyntheticModel(0.8, 2.0), "c": SyntheticModel(0.7, 1.0)}


def rounds(count):
    rng = np.random.default_rng(0)
    for _ in range(count):
        changes = tuple(Change(arm, 0.5, None, float(rng.integers(2))) for arm in "abc")
        yield Contribution(rng.normal(size=D) / np.sqrt(D), changes)


def taught(*, linear, count=100):
    state = State(D, linear=linear)
    state.add(*rounds(count))
    return state


def standings(state):
    return state.standings("abc", "moments"), state.rounds, state.pairs.correlation("abc").tolist()


def test_it_knows_the_same_whatever_the_context():
    assert standings(taught(linear=False)) == standings(taught(linear=True))


def test_it_takes_a_hundredth_of_the_memory():
    full, small = (len(taught(linear=linear).snapshot()) for linear in (True, False))
    assert small < full / 100


def test_reading_a_linear_model_that_is_not_kept_is_refused():
    state = taught(linear=False)
    for read in (
        lambda: state.score("abc", np.ones(D)),
        lambda: state["a"].inverse,
        lambda: state["a"].b,
        lambda: CaMVo().plan({"q": Observation(state, np.ones(D), ("x", "y"))}, dict.fromkeys("abc", 1.0)),
    ):
        with pytest.raises(InvalidParameterError, match="linear"):
            read()


def test_withdrawing_takes_back_everything():
    state, lesson = taught(linear=False), next(rounds(1))
    before = standings(state)
    state.add(lesson)
    state.add(lesson.withdrawal())
    assert standings(state) == before


@pytest.mark.parametrize("linear", [True, False])
def test_a_snapshot_comes_back_as_it_was(linear):
    again = State.restore(taught(linear=linear).snapshot())
    assert again.linear is linear
    assert standings(again) == standings(taught(linear=linear))


def test_a_snapshot_can_be_restored_without_its_linear_models():
    again = State.restore(taught(linear=True).snapshot(), linear=False)
    assert not again.linear
    assert again.snapshot() == taught(linear=False).snapshot()


def test_linear_models_that_a_snapshot_lacks_cannot_be_restored():
    with pytest.raises(SnapshotError, match="no linear models"):
        State.restore(taught(linear=False).snapshot(), linear=True)


def test_the_joint_policy_reads_none_for_labels_and_all_others_do():
    reading = {name for name, policy in POLICIES.items() if policy.linear(None, LABEL_VOTE)}
    assert set(POLICIES) - reading == {"joint"}
    assert Joint().linear(NumericVote(0.0, 1.0))


@pytest.mark.parametrize("policy", [Joint(agreement=0.9), Joint()], ids=["agreement", "worth"])
def test_the_labels_and_scores_are_those_with_linear_models(policy, monkeypatch):
    table = draw_votes_table(MODELS, items=120, labels=("no", "yes"), seed=0, dimension=3)
    human = np.arange(120) % 10 == 0
    without = replay(policy, table, window=16, human=human)
    monkeypatch.setattr(type(policy), "linear", lambda self, aggregation: True)
    with_models = replay(policy, table, window=16, human=human)
    assert without.labels.tolist() == with_models.labels.tolist()
    assert without.asked.tolist() == with_models.asked.tolist()
    assert not without.asked.all()


def test_a_question_whose_policy_reads_none_keeps_none():
    prices = {"small": 1.0, "large": 9.0}
    assert not Question(("x", "y"), prices=prices, dimension=3).state.linear
    assert Question(("x", "y"), prices=prices, dimension=3, policy=CaMVo()).state.linear
    with pytest.raises(InvalidParameterError, match="linear models"):
        Question(("x", "y"), prices=prices, state=State(3, linear=False), policy=CaMVo())


def test_announced_contexts_of_such_a_state_cannot_be_scored():
    state = lookahead.LookaheadState(3, linear=False)
    with pytest.raises(InvalidParameterError, match="linear"):
        state.score_window("ab", [np.ones(3)])
