"""The joint policy where a share of the labels must equal those of the votes of all models."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from made_up_votes import draw_votes
from synthetic_votes import SyntheticModel, draw_votes_table

from camvo.errors import InvalidParameterError
from camvo.joint.agreement import rounds_needed
from camvo.policies.joint import FIRST, MOST_FIRST, Joint
from camvo.policies.past_rounds import further_policy
from camvo.policies.policy import Conditions, Observation
from camvo.replays.replay import VotesTable
from camvo.state.contribution import revision
from camvo.state.state import State
from camvo.votes.numbers import NumericVote

MODELS = {
    "huge": SyntheticModel(0.88, 40.0),
    "large": SyntheticModel(0.87, 25.0),
    "medium": SyntheticModel(0.85, 10.0),
    "small": SyntheticModel(0.8, 3.0),
    "tiny": SyntheticModel(0.78, 1.0),
}
COSTS = {name: model.price for name, model in MODELS.items()}
NAMES = {2: ("no", "yes"), 4: ("no", "yes", "maybe", "other")}
CONTEXT = np.array([1.0, 0.0, 0.0])


def drawn(items=1500, labels=4, seed=0, missing=0.0):
    table = draw_votes_table(
        MODELS, items=items, labels=NAMES[labels], seed=seed, dimension=3, correlation=0.5, skill_spread=0.1
    )
    gone = np.random.default_rng(seed).random(table.votes.shape) < missing
    return VotesTable(
        table.labels, table.prices, table.contexts, np.where(gone, -1, table.votes), table.truth
    )


class Run:
    """A replay that keeps the state and the plans, and knows the label of all votes about every task."""

    def __init__(self, policy, table):
        self.state = State(table.contexts.shape[1])
        self.labels, self.targets, self.plans, self.costs = [], [], [], []
        arms = tuple(table.prices)
        for row, context in zip(table.votes, table.contexts, strict=True):
            plan = policy.plan({"q": Observation(self.state, context, table.labels)}, table.prices)
            every = {
                arm: {"q": table.labels[vote]} if vote >= 0 else {}
                for arm, vote in zip(arms, row, strict=True)
            }
            votes = {}
            while wanted := policy.ask(plan, votes):
                votes |= {arm: every[arm] for arm in wanted}
            label = policy.decide(plan, votes)["q"].label
            self.state.add(policy.contribution(plan, "q", votes, label))
            self.labels.append(label)
            self.targets.append(policy.decide(plan, every)["q"].label)
            self.plans.append(plan)
            self.costs.append(sum(table.prices[arm] for arm in votes) / table.full_cost)

    @property
    def agreement(self):
        return np.mean([label == target for label, target in zip(self.labels, self.targets, strict=True)])

    @property
    def everyone(self):
        return [plan.stages.exploration == "everyone" for plan in self.plans]


@pytest.fixture(scope="module")
def learned():
    return Run(Joint(agreement=0.97), drawn())


@pytest.fixture(scope="module")
def certain():
    return Run(Joint(agreement=1.0), drawn(items=700))


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_with_an_agreement_of_1_every_label_is_that_of_all_votes(labels, missing):
    run = Run(Joint(agreement=1.0), drawn(items=300, labels=labels, missing=missing))
    assert run.labels == run.targets
    assert np.mean(run.costs[MOST_FIRST:]) < 0.95


def test_the_required_share_of_labels_is_that_of_all_votes(learned):
    assert learned.agreement >= 0.97


def test_a_lower_agreement_costs_less(learned, certain):
    assert np.mean(learned.costs[300:700]) < np.mean(certain.costs[300:]) - 0.03


def test_the_first_rounds_ask_everyone_until_they_can_bear_the_agreement_out(learned):
    first = rounds_needed(0.97)
    assert FIRST < first < MOST_FIRST
    assert all(learned.everyone[:first])
    assert sum(learned.everyone[-300:]) < 100


def test_an_agreement_that_needs_too_many_rounds_goes_on_with_certain_labels(certain):
    assert all(certain.everyone[:MOST_FIRST])
    assert not all(certain.everyone[MOST_FIRST : MOST_FIRST + 50])
    assert certain.plans[-1].stages.questions["q"].stops.error_price is None


def test_only_rounds_that_asked_everyone_test_the_promise(learned):
    exploration = learned.state.exploration
    assert exploration.tried == sum(learned.everyone)
    assert exploration.right / exploration.tried > 0.96
    assert learned.state.drift.stops.tried > 50


def test_a_plan_is_the_same_on_every_machine():
    first, second = (Run(Joint(agreement=0.9), drawn(items=80)) for _ in range(2))
    assert [plan.describe("q") for plan in first.plans] == [plan.describe("q") for plan in second.plans]
    assert first.state.snapshot() == second.state.snapshot()


def test_a_plan_says_how_it_stops_in_plain_json(learned):
    described = learned.plans[-1].describe("q")
    assert json.loads(json.dumps(described, allow_nan=False)) == described
    stops = described["stages"]["agreement"]
    assert stops["error_price"] > 0.0
    assert stops["error"] < 0.03


def test_a_price_that_differs_by_a_few_words_changes_no_stop(learned):
    observations = {"q": Observation(learned.state, CONTEXT, NAMES[4])}
    plan, scaled = (
        Joint(agreement=0.97).plan(observations, {arm: cost * scale for arm, cost in COSTS.items()})
        for scale in (1.0, 1.007)
    )
    assert plan.stages == scaled.stages


def test_a_task_goes_on_while_one_of_its_questions_needs_more_votes(learned):
    policy = Joint(agreement=0.97)
    observation = Observation(learned.state, CONTEXT, NAMES[4])
    plan = policy.plan({"p": observation, "q": observation}, COSTS)
    first = policy.ask(plan, {})
    agreed = {arm: {"p": "yes", "q": "yes"} for arm in first}
    divided = {arm: {"p": "yes", "q": NAMES[4][number % 4]} for number, arm in enumerate(COSTS)}
    assert plan.stages.exploration == "nobody"
    while arms := policy.ask(plan, agreed):
        agreed |= {arm: {"p": "yes", "q": "yes"} for arm in arms}
    assert policy.ask(plan, {arm: divided[arm] for arm in agreed}) != ()


def test_with_few_stages_left_models_are_asked_together(learned):
    observation = {"q": Observation(learned.state, CONTEXT, NAMES[4])}
    one, many = (
        Joint(agreement=0.97).plan(observation, COSTS, Conditions(stages=stages)).stages.count
        for stages in (1, 5)
    )
    assert many < one


def test_a_human_label_rewards_the_first_stage_and_can_be_taken_back(learned):
    policy = Joint(agreement=0.97)
    plan = next(plan for plan in reversed(learned.plans) if plan.stages.exploration == "nobody")
    state = State.restore(learned.state.snapshot())
    votes = {arm: {"q": "no"} for arm in plan.stages.order}
    voted = policy.contribution(plan, "q", votes, "no")
    human = policy.contribution(plan, "q", votes, "yes", human=True)
    assert {change.arm for change in human.changes} == set(plan.stages.first)
    state.add(revision(voted, human))
    assert state[plan.stages.first[0]].rewards == learned.state[plan.stages.first[0]].rewards + 1
    state.add(revision(human, voted))
    assert {arm: state[arm].rewards for arm in COSTS} == {arm: learned.state[arm].rewards for arm in COSTS}


def test_human_labels_change_what_the_label_of_all_votes_is():
    """People say that the dear model is right whatever the others vote."""
    votes, truth = draw_votes(np.array([0.98, 0.5, 0.5, 0.5, 0.5]), labels=4, items=100, decoy=1.0)
    policy, state = Joint(agreement=0.9), State(3)
    for row, right in zip(votes.tolist(), truth.tolist(), strict=True):
        observation = {"q": Observation(state, CONTEXT, NAMES[4])}
        plan = policy.plan(observation, COSTS, Conditions(everyone=True))
        cast = {arm: {"q": NAMES[4][vote]} for arm, vote in zip(COSTS, row, strict=True)}
        state.add(policy.contribution(plan, "q", cast, NAMES[4][right], human=True))
    plan = policy.plan({"q": Observation(state, CONTEXT, NAMES[4])}, COSTS)
    cast = {arm: {"q": "yes" if arm == "huge" else "no"} for arm in COSTS}
    assert policy.decide(plan, cast)["q"].label == "yes"


def test_a_question_whose_votes_are_not_labels_asks_everyone():
    observations = {"q": Observation(State(3), CONTEXT, (), NumericVote(0.0, 10.0))}
    assert set(Joint(agreement=0.9).plan(observations, COSTS).subset) == set(COSTS)


def test_a_student_has_no_part_in_it():
    assert Joint().studies
    assert not Joint(agreement=0.9).studies


def test_a_budget_does_not_change_what_is_promised(learned):
    policy, observation = Joint(agreement=0.9), {"q": Observation(learned.state, CONTEXT, NAMES[4], task="a")}
    plan, poor = (policy.plan(observation, COSTS, Conditions(allowance=most)) for most in (math.inf, 0.1))
    assert (plan.stages.prices, plan.stages.propensity) == (poor.stages.prices, poor.stages.propensity)


def test_further_votes_on_decided_rounds_go_by_the_worth_of_a_right_label():
    further = further_policy(Joint(agreement=0.9)).policy_for(2.0)
    assert (further.agreement, further.worth_usd) == (None, 2.0)


def test_an_agreement_of_0_is_one_too():
    run = Run(Joint(agreement=0.0), drawn(items=60))
    assert all(run.everyone[:FIRST])
    assert not all(run.everyone)


@pytest.mark.parametrize("agreement", [-0.1, 1.1, float("nan")])
def test_an_agreement_is_a_share(agreement):
    with pytest.raises(InvalidParameterError, match="agreement"):
        Joint(agreement=agreement)
