from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from camvo.errors import InvalidParameterError
from camvo.policies.estimates import Observation
from camvo.policies.sequential import Sequential
from camvo.replays.synthetic import SyntheticModel, draw_votes_table
from camvo.replays.votes_table import VotesTable
from camvo.state.contribution import revision
from camvo.state.state import State
from camvo.state.vote_patterns import UNASKED, canonical
from camvo.votes.labels import weighted_vote
from camvo.votes.numbers import NumericVote
from camvo.weights.one_coin import accuracies

MODELS = {
    "huge": SyntheticModel(0.88, 40.0),
    "large": SyntheticModel(0.87, 25.0),
    "medium": SyntheticModel(0.85, 10.0),
    "small": SyntheticModel(0.8, 3.0),
    "tiny": SyntheticModel(0.78, 1.0),
}
LABELS = ("no", "yes", "maybe", "other")
COSTS = {name: model.price for name, model in MODELS.items()}
CONTEXT = np.array([1.0, 0.0, 0.0])


def drawn(items=1500, seed=0, correlation=0.5, missing=0.0):
    table = draw_votes_table(
        MODELS, items=items, labels=LABELS, seed=seed, dimension=3, correlation=correlation, skill_spread=0.1
    )
    gone = np.random.default_rng(seed).random(table.votes.shape) < missing
    return VotesTable(LABELS, table.prices, table.contexts, np.where(gone, -1, table.votes), table.truth)


class Run:
    """A replay that keeps the state and the plans, and knows the full vote of every task."""

    def __init__(self, policy, table):
        self.state = State(table.contexts.shape[1])
        self.labels, self.targets, self.plans, self.costs = [], [], [], []
        arms = tuple(table.prices)
        for row, context in zip(table.votes, table.contexts, strict=True):
            plan = policy.plan({"q": Observation(self.state, context, LABELS)}, table.prices)
            every = {
                arm: {"q": LABELS[vote]} if vote >= 0 else {} for arm, vote in zip(arms, row, strict=True)
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


@pytest.fixture(scope="module")
def table():
    return drawn()


@pytest.fixture(scope="module")
def learned(table):
    return Run(Sequential(agreement=0.97), table)


@pytest.fixture(scope="module")
def certain(table):
    return Run(Sequential(agreement=1.0), table)


def test_certain_labels_equal_the_full_vote_and_cost_less(certain):
    assert certain.labels == certain.targets
    assert np.mean(certain.costs) < 0.6


def test_the_learned_rule_keeps_the_required_agreement_and_costs_even_less(learned, certain):
    assert learned.agreement >= 0.97
    assert np.mean(learned.costs[500:]) < np.mean(certain.costs[500:]) - 0.03


@pytest.mark.parametrize("stages", [1, 2, 5])
def test_certain_labels_hold_with_missing_answers_and_any_number_of_stages(stages):
    run = Run(Sequential(agreement=1.0, max_stages=stages), drawn(items=250, missing=0.15))
    assert run.labels == run.targets


def test_it_stops_only_at_certain_labels_until_there_is_evidence(learned):
    drawn_kinds = [plan.stages.exploration for plan in learned.plans]
    assert "nobody" not in drawn_kinds[:60]
    assert drawn_kinds[-300:].count("nobody") > 200
    assert all(plan.stages.propensity[1] == 1.0 for plan in learned.plans[:60])


def test_a_round_without_exploration_leaves_no_evidence(learned):
    explored = sum(plan.stages.exploration != "nobody" for plan in learned.plans)
    assert sum(learned.state.exploration.patterns.values()) == explored


def test_the_state_counts_how_often_the_learned_rule_was_right(learned):
    exploration = learned.state.exploration
    assert exploration.tried > 100
    assert exploration.right / exploration.tried > 0.96


def test_weights_under_sequential_asking_agree_with_those_under_full_asking(learned, table):
    """Rounds that went to the end because their votes were divided would understate every model."""
    arms = tuple(sorted(COSTS))
    prices = np.array([COSTS[arm] for arm in arms])
    every = Counter(
        canonical(row) for row in table.votes[:, [list(COSTS).index(arm) for arm in arms]].tolist()
    )
    full = accuracies(every, prices, len(LABELS))
    rounds = sum(plan.stages.exploration == "everyone" for plan in learned.plans)
    error = np.sqrt(full * (1.0 - full) / rounds)
    assert np.all(np.abs(expit(learned.plans[-1].weights["q"]) - full) < 3.0 * error)
    to_the_end = Counter()
    for pattern, count in learned.state.exploration.patterns.items():
        if UNASKED not in pattern.groups and not pattern.everyone:
            to_the_end[pattern.groups] += count
    assert np.any(accuracies(to_the_end, prices, len(LABELS)) < full - 0.1)


def test_a_plan_is_the_same_on_every_machine(table):
    short = VotesTable(LABELS, table.prices, table.contexts[:150], table.votes[:150], table.truth[:150])
    first, second = Run(Sequential(), short), Run(Sequential(), short)
    assert [plan.describe("q") for plan in first.plans] == [plan.describe("q") for plan in second.plans]
    assert first.state.snapshot() == second.state.snapshot()


def test_a_plan_is_small_json(learned):
    described = learned.plans[-1].describe("q")
    assert len(json.dumps(described)) < 5000
    assert json.loads(json.dumps(described)) == described


def test_the_order_of_the_models_in_a_configuration_changes_nothing(learned):
    observations = {"q": Observation(learned.state, CONTEXT, LABELS)}
    plans = [
        Sequential().plan(observations, dict(order)) for order in (COSTS.items(), reversed(COSTS.items()))
    ]
    assert plans[0].describe("q") == plans[1].describe("q")


def test_a_price_that_differs_by_a_few_words_changes_no_rule(learned):
    observations = {"q": Observation(learned.state, CONTEXT, LABELS)}
    plan, scaled = (
        Sequential().plan(observations, {arm: cost * scale for arm, cost in COSTS.items()})
        for scale in (1.0, 1.007)
    )
    assert plan.stages == scaled.stages


def test_models_are_asked_in_the_order_of_their_weight_per_price(learned):
    for plan in learned.plans[-20:]:
        weights = dict(zip(plan.arms, plan.weights["q"].tolist(), strict=True))
        value = {arm: weights[arm] / COSTS[arm] for arm in plan.arms}
        assert all(value[arm] >= 0.97 * value[later] for arm, later in pairwise(plan.stages.order))


def voted(policy, plan, labels):
    votes = {arm: {"q": label} for arm, label in labels.items()}
    return policy.contribution(plan, "q", votes, "yes"), votes


def test_only_a_round_that_asked_all_models_teaches_by_its_vote(learned):
    policy = Sequential()
    for plan in learned.plans[-300:]:
        taught, _ = voted(policy, plan, dict.fromkeys(plan.subset, "yes"))
        assert bool(taught.changes) == (plan.stages.exploration == "everyone")


def test_a_human_label_rewards_the_first_stage_and_can_be_taken_back(learned):
    policy = Sequential()
    plan = next(plan for plan in reversed(learned.plans) if plan.stages.exploration == "nobody")
    before = learned.state.snapshot()
    state = State.restore(before)
    first, votes = voted(policy, plan, dict.fromkeys(plan.stages.order, "no"))
    human = policy.contribution(plan, "q", votes, "yes", human=True)
    assert {change.arm for change in human.changes} == set(plan.stages.first)
    state.add(revision(first, human))
    assert state[plan.stages.first[0]].rewards == learned.state[plan.stages.first[0]].rewards + 1
    state.add(revision(human, first))
    for arm in COSTS:
        assert state[arm].rewards == learned.state[arm].rewards
        assert state[arm].reward_sum == pytest.approx(learned.state[arm].reward_sum, abs=1e-9)
    assert state.exploration == learned.state.exploration


def test_after_a_model_joins_asking_stops_only_at_certain_labels(learned):
    observations = {"q": Observation(learned.state, CONTEXT, LABELS)}
    plan = Sequential(agreement=0.97).plan(observations, COSTS | {"new": 5.0})
    assert plan.stages.exploration in ("certificate", "everyone")
    assert plan.stages.questions["q"].rule.certain


def test_a_model_that_leaves_hardly_changes_the_weights_of_the_others(learned):
    observations = {"q": Observation(learned.state, CONTEXT, LABELS)}
    costs = {arm: cost for arm, cost in COSTS.items() if arm != "large"}
    weights = Sequential().plan(observations, costs).weights["q"]
    before = learned.plans[-1].weights["q"][[arm != "large" for arm in sorted(COSTS)]]
    assert expit(weights) == pytest.approx(expit(before), abs=0.1)


def test_of_near_copies_only_the_cheapest_has_a_weight(table):
    """A copy of "medium" at half its price does not change the weights of the others."""
    medium = table.votes[:, list(COSTS).index("medium")]
    copied = VotesTable(
        LABELS,
        table.prices | {"copy": 5.0},
        table.contexts[:600],
        np.column_stack((table.votes, medium))[:600],
        table.truth[:600],
    )
    plan = Run(Sequential(agreement=1.0), copied).plans[-1]
    weights = dict(zip(plan.arms, plan.weights["q"].tolist(), strict=True))
    short = VotesTable(LABELS, table.prices, table.contexts[:600], table.votes[:600], table.truth[:600])
    alone = Run(Sequential(agreement=1.0), short).plans[-1]
    without = dict(zip(alone.arms, alone.weights["q"].tolist(), strict=True))
    assert weights.pop("medium") == 0.0
    assert weights.pop("copy") == pytest.approx(without.pop("medium"), abs=0.5)
    assert weights == pytest.approx(without, abs=0.5)


def test_questions_whose_answers_are_not_labels_ask_all_models():
    state = State(3)
    observations = {"q": Observation(state, CONTEXT, (), NumericVote(0.0, 10.0))}
    plan = Sequential().plan(observations, COSTS)
    assert set(plan.subset) == set(COSTS)
    taught = Sequential().contribution(plan, "q", {arm: {"q": "3"} for arm in COSTS}, "3")
    assert taught.exploration is None
    assert len(taught.changes) == len(COSTS)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([*LABELS, None]), min_size=5, max_size=5), st.integers(0, 2**32 - 1))
def test_a_certain_label_is_that_of_the_weighted_vote_of_all_models(answers, seed):
    rng = np.random.default_rng(seed)
    state = State(3)
    state.rounds = int(rng.integers(200))
    policy = Sequential(agreement=1.0)
    plan = policy.plan({"q": Observation(state, rng.normal(size=3), LABELS)}, COSTS)
    every = {arm: answer for arm, answer in zip(COSTS, answers, strict=True) if answer is not None}
    votes = {}
    while wanted := policy.ask(plan, votes):
        votes |= {arm: {"q": every[arm]} if arm in every else {} for arm in wanted}
    if not every:
        assert policy.decide(plan, votes) == {}
        return
    weights, lower = (
        dict(zip(plan.arms, column, strict=True)) for column in (plan.weights["q"], plan.estimates["q"].lower)
    )
    assert policy.decide(plan, votes)["q"].label == weighted_vote(every, weights, LABELS, lower)


@pytest.mark.parametrize("wrong", [{"agreement": 1.1}, {"agreement": -0.1}, {"max_stages": 0}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidParameterError):
        Sequential(**wrong)


def test_a_plan_of_another_policy_is_refused(learned):
    from camvo.policies.baselines import Majority  # noqa: PLC0415

    plan = Majority().plan({"q": Observation(learned.state, CONTEXT, LABELS)}, COSTS)
    with pytest.raises(InvalidParameterError, match="does not ask in stages"):
        Sequential().ask(plan, {})
