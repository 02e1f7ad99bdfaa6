from __future__ import annotations

import json
import math

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.policies.baselines import Baseline
from camvo.policies.estimates import Observation
from camvo.policies.stacked import Stacked
from camvo.replays.replay import replay
from camvo.replays.synthetic import SyntheticModel, draw_votes_table
from camvo.replays.votes_table import VotesTable
from camvo.stages.stack_stops import Stops
from camvo.stages.worth_stages import WorthStages
from camvo.state.contribution import Contribution, revision
from camvo.state.kept_rounds import CastVote, KeptRound
from camvo.state.state import State
from camvo.votes.numbers import NumericVote

LABELS = ("p", "q", "r", "s")
PRICES = {"good": 8.0, "twin1": 1.0, "twin2": 1.5, "twin3": 2.0}


def drawn(items=1000, seed=0):
    """One model that is good; three that are wrong together and outvote it."""
    rng = np.random.default_rng(seed)
    truth, tempting = np.argsort(rng.random((items, 4)), axis=1)[:, :2].T
    shared = rng.random(items)
    luck = np.where(rng.random((items, 4)) < [1.0, 0.1, 0.1, 0.1], rng.random((items, 4)), shared[:, None])
    votes = np.where(luck < [0.92, 0.7, 0.7, 0.7], truth[:, None], tempting[:, None])
    contexts = np.c_[np.ones(items), rng.normal(size=(items, 2))]
    return VotesTable(LABELS, PRICES, contexts, votes, truth)


@pytest.fixture(scope="module")
def table():
    return drawn()


@pytest.fixture(scope="module")
def taught(table):
    return replay(Stacked(first=200), table, window=20, human=np.arange(1000) < 60)


def accuracy(trace, table, start=200):
    return np.mean(trace.labels[start:] == table.truth[start:])


def test_human_labels_lift_it_above_the_vote_of_all(table, taught):
    everyone = replay(Baseline(), table, window=20)
    assert accuracy(taught, table) > accuracy(everyone, table) + 0.08


def test_it_costs_less_than_everyone_where_the_cheap_ones_agree():
    models = {"large": (0.92, 10.0), "medium": (0.88, 2.0), "small": (0.86, 1.0), "tiny": (0.85, 0.5)}
    models = {name: SyntheticModel(*numbers) for name, numbers in models.items()}
    table = draw_votes_table(models, items=700, labels=LABELS, seed=0, dimension=3)
    trace = replay(Stacked(), table, window=20, human=np.arange(700) < 100)
    assert trace.costs[250:].mean() < 0.7 * table.full_cost
    assert not trace.asked[250:].all()


def test_without_human_labels_it_asks_less_and_says_the_same(table):
    few, everyone = replay(Stacked(), table, window=20), replay(Baseline(), table, window=20)
    assert few.costs.mean() < 0.9 * table.full_cost
    assert np.mean(few.labels == everyone.labels) > 0.98


def test_everyone_is_asked_at_first(taught):
    assert taught.asked[:200].all()


def test_a_stage_is_a_wait(table):
    trace = replay(Stacked(first=200, max_stages=1), table, window=20)
    assert trace.asked.all()


def observed(state):
    return {"question": Observation(state, np.array([1.0, 0.0, 0.0]), LABELS)}


def test_a_human_label_that_is_withdrawn_leaves_the_state_as_it_was():
    state, policy = State(3), Stacked()
    votes = {arm: {"question": label} for arm, label in zip(PRICES, LABELS, strict=True)}
    plan = policy.plan(observed(state), PRICES)
    voted = policy.contribution(plan, "question", votes, "p")
    human = policy.contribution(plan, "question", votes, "q", human=True)
    state.add(voted, revision(voted, human))
    assert [round_.label for round_ in state.kept_rounds.rounds] == ["q"]
    state.add(revision(human, voted))
    assert [round_.label for round_ in state.kept_rounds.rounds] == [None]
    assert state.kept_rounds.rounds == [voted.kept]


def test_kept_rounds_survive_the_ledger_and_a_snapshot():
    state, policy = State(3), Stacked()
    plan = policy.plan(observed(state), PRICES)
    votes = {"good": {"question": "p"}, "twin1": {}}
    lesson = Contribution.unpack(policy.contribution(plan, "question", votes, "p", human=True).pack())
    state.add(lesson)
    assert State.restore(state.snapshot()).kept_rounds.rounds == state.kept_rounds.rounds == [lesson.kept]


def test_rounds_that_were_asked_on_because_of_votes_teach_no_rewards():
    table = drawn(items=300)
    policy, state = Stacked(first=0), State(3)
    rng = np.random.default_rng(0)
    everyone = Stacked(first=300)
    for item in range(210):
        plan = everyone.plan(observed(state), PRICES)
        votes = {arm: {"question": LABELS[table.votes[item, k]]} for k, arm in enumerate(PRICES)}
        state.add(everyone.contribution(plan, "question", votes, LABELS[rng.integers(4)]))
    plan = next(
        plan for plan in (policy.plan(observed(state), PRICES) for _ in range(1)) if len(plan.subset) < 4
    )
    assert policy.contribution(plan, "question", votes, "p").changes == ()
    human = policy.contribution(plan, "question", votes, "p", human=True)
    assert {change.arm for change in human.changes} == set(plan.subset)


def experienced():
    """A state with 200 kept rounds in which four models and a human agree."""
    state = State(3)
    for number in range(200):
        label = LABELS[number % 4]
        state.kept_rounds.add(
            KeptRound(tuple(CastVote(arm, label, 0.8) for arm in sorted(PRICES)), label, everyone=True)
        )
    return state


def test_a_plan_is_described_in_plain_json():
    """This includes a stage at which no round stops, whose margin is infinite."""
    plan = Stacked(first=0).plan(observed(experienced()), PRICES)
    described = plan.describe("question")
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert described["stages"]["first"] == described["stops"]["upto"][0] < len(PRICES)
    _, never = WorthStages(Stops((1, 4), (math.inf, -math.inf), ((0.0, 1.0),)), None, (), {}).describe()
    assert json.loads(json.dumps(never, allow_nan=False)) == never


def test_a_model_that_joins_has_everyone_asked_again():
    state = experienced()
    known, joined = (
        Stacked(first=100).plan(observed(state), prices) for prices in (PRICES, PRICES | {"new": 9.0})
    )
    assert (known.stages.propensity, joined.stages.propensity) == (0.03, 1.0)
    assert set(joined.subset) == {*PRICES, "new"}


def test_a_number_beside_it_is_asked_of_everyone_and_kept_by_nobody():
    policy, state = Stacked(first=0), experienced()
    asked = observed(state) | {
        "number": Observation(state, np.array([1.0, 0.0, 0.0]), (), NumericVote(0.0, 10.0))
    }
    plan = policy.plan(asked, PRICES)
    votes = {arm: {"question": "p", "number": "3"} for arm in PRICES}
    assert set(plan.subset) == set(PRICES)
    assert policy.ask(plan, votes) == ()
    assert policy.contribution(plan, "number", votes, "3", human=True).kept is None
    assert policy.contribution(plan, "question", votes, "p", human=True).kept is not None


@pytest.mark.parametrize("options", [{"worth": 0.0}, {"worth": np.inf}, {"max_stages": 0}, {"first": -1}])
def test_parameters_out_of_range_are_refused(options):
    with pytest.raises(InvalidParameterError):
        Stacked(**options)
