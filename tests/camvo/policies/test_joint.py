"""The joint policy: whom it asks, what it learns from, and what it leaves in the state."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from made_up_votes import draw_votes
from same_state import assert_same_state

from camvo.errors import InvalidParameterError
from camvo.policies.ensemble import Majority
from camvo.policies.joint import Joint
from camvo.policies.policy import Observation, fitted
from camvo.policies.teaching import TaughtRound
from camvo.replays.replay import VotesTable, replay
from camvo.state.contribution import Contribution, revision
from camvo.state.state import State
from camvo.student import STUDENT
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.numbers import NumericVote
from camvo.votes.texts import OpenVote

LABELS = ("neg", "neutral", "other", "pos")
PRICES = {"a": 4.0, "b": 1.0, "c": 0.5, "d": 0.2}
ACCURACY = np.array([0.95, 0.85, 0.8, 0.75])
CONTEXT = np.array([1.0, 0.0])


def table(items=400, labels=LABELS, prices=PRICES, accuracy=ACCURACY, **draw):
    votes, truth = draw_votes(accuracy, labels=len(labels), items=items, **draw)
    contexts = np.column_stack((np.ones(items), np.linspace(-1.0, 1.0, items)))
    return VotesTable(labels, prices, contexts, votes, truth)


@pytest.fixture(scope="module")
def items():
    return table()


@pytest.fixture(scope="module")
def trace(items):
    return replay(Joint(), items, window=10)


def observed(state, labels=LABELS, context=CONTEXT):
    return {"q": Observation(state, context, labels)}


def cast(label, arms=PRICES):
    return {arm: {"q": label} for arm in arms}


def practised(rounds=60, labels=LABELS, prices=PRICES, policy=None, seed=0):
    """A state after some rounds of the policy."""
    policy, state = policy or Joint(), State(2)
    votes, _ = draw_votes(ACCURACY[: len(prices)], labels=len(labels), items=rounds, seed=seed)
    for number, row in enumerate(votes.tolist()):
        plan = policy.plan(observed(state, labels, np.array([1.0, number / rounds])), prices)
        said = {arm: {"q": labels[vote]} for arm, vote in zip(sorted(prices), row, strict=True)}
        taken = {}
        while arms := policy.ask(plan, taken):
            taken |= {arm: said[arm] for arm in arms}
        label = policy.decide(plan, taken)["q"].label
        state.add(policy.contribution(plan, "q", taken, label))
    return state


@pytest.fixture(scope="module")
def taught():
    return practised().snapshot()


def plans(state, policy=None, count=40, prices=PRICES):
    """Plans of different tasks, some of which ask everyone by the draw."""
    policy = policy or Joint()
    return [policy.plan(observed(state, context=np.array([1.0, 0.01 * n])), prices) for n in range(count)]


def own_plan(state, policy=None):
    """A plan that the draw did not extend."""
    return next(plan for plan in plans(state, policy) if plan.stages.exploration == "nobody")


# -- whom it asks


def test_the_first_rounds_ask_everyone(trace):
    assert trace.asked[:36].all()
    assert not trace.asked[36:].all()


def test_later_it_asks_less_and_loses_little(trace, items):
    later = slice(200, None)
    assert trace.costs[later].mean() < 0.75 * items.full_cost
    right = (trace.labels == items.truth)[later].mean()
    assert right > (items.votes[later] == items.truth[later, None]).mean(axis=0)[1:].max()


def test_some_later_rounds_still_ask_everyone(trace):
    assert 3 < trace.asked[36:].all(axis=1).sum() < 300


def test_everyone_is_asked_again_when_a_model_joins(taught):
    plan = Joint().plan(observed(State.restore(taught)), {**PRICES, "new": 0.1})
    assert plan.stages.exploration == "everyone"
    assert plan.stages.propensity == 1.0


def test_no_more_rounds_ask_everyone_when_a_model_leaves(taught):
    fewer = {arm: price for arm, price in PRICES.items() if arm != "a"}
    assert any(plan.stages.exploration == "nobody" for plan in plans(State.restore(taught), prices=fewer))


def test_a_right_label_that_is_worth_more_buys_more_votes():
    items = table(160)
    cheap, dear = (replay(Joint(worth=worth), items, window=40).costs.mean() for worth in (1.0, 300.0))
    assert cheap < dear


def test_of_two_equals_the_one_that_always_answers_is_asked_first():
    """And the price of a vote is what it takes to get one."""
    policy, state, prices = Joint(), State(2), dict.fromkeys("abc", 1.0)
    votes, _ = draw_votes(np.full(3, 0.8), labels=4, items=36)
    for number, row in enumerate(votes.tolist()):
        plan = policy.plan(observed(state), prices)
        said = {arm: {"q": LABELS[vote]} for arm, vote in zip(prices, row, strict=True)}
        said |= {arm: {} for arm in "bc" if number % 4}
        state.add(policy.contribution(plan, "q", said, policy.decide(plan, said)["q"].label))
    [plan, *_] = [each for each in plans(state, prices=prices) if each.stages.exploration == "nobody"]
    paid = plan.stages.prices
    assert plan.stages.first[0] == "a"
    assert paid["b"] / paid["a"] == pytest.approx(37 / 10, rel=0.05)


def test_only_the_proportions_of_the_prices_matter(taught):
    state = State.restore(taught)
    cents = {arm: 100.0 * price for arm, price in PRICES.items()}
    assert own_plan(state).subset == next(
        plan.subset for plan in plans(state, prices=cents) if plan.stages.exploration == "nobody"
    )


@pytest.mark.parametrize("labels", [("only",), ("neg", "pos"), LABELS])
@pytest.mark.parametrize("prices", [{"a": 1.0}, {"a": 1.0, "b": 0.0}], ids=["one model", "one is free"])
def test_small_pools_and_label_sets_are_decided_with_a_probability(labels, prices):
    policy, state = Joint(), State(2)
    for number in range(45):
        plan = policy.plan(observed(state, labels, np.array([1.0, 0.1 * number])), prices)
        votes = {}
        while arms := policy.ask(plan, votes):
            votes |= cast(labels[number % len(labels)], arms)
        decision = policy.decide(plan, votes)["q"]
        assert decision.label == labels[number % len(labels)]
        assert 1.0 / len(labels) <= decision.score + 1e-12 <= 1.0 + 1e-9
        state.add(policy.contribution(plan, "q", votes, decision.label))


def test_a_question_without_labels_asks_everyone(taught):
    state = State.restore(taught)
    observations = observed(state) | {"stars": Observation(State(2), CONTEXT, (), NumericVote(1.0, 5.0))}
    plan = Joint().plan(observations, PRICES)
    assert set(Joint().ask(plan, {})) == set(PRICES)


# -- what it decides


def test_copies_do_not_outvote_better_models():
    """Three of seven copy one another and outvote the others; without labels, the policy finds that out."""
    prices = dict(zip("abcdefg", (1.0, 1.0, 1.0, 1.2, 1.3, 1.4, 1.5), strict=True))
    accuracy = np.array([0.55, 0.55, 0.55, 0.8, 0.8, 0.75, 0.75])
    copied = table(300, prices=prices, accuracy=accuracy, copies=2, seed=2)
    trace = replay(Joint(), copied, window=25)
    later = slice(75, None)
    right = (trace.labels == copied.truth)[later].mean()
    counts = (copied.votes[:, :, None] == np.arange(len(LABELS))).sum(axis=1)
    assert right > (counts.argmax(axis=1) == copied.truth)[later].mean() + 0.03


def test_human_labels_raise_the_trust_in_the_own_score(taught):
    state = State.restore(taught)
    policy, votes = Joint(), {"a": {"q": "pos"}, "b": {"q": "neg"}, "c": {"q": "pos"}, "d": {"q": "neg"}}
    before = policy.decide(own_plan(state), votes)["q"].trust
    plan = own_plan(state)
    for _ in range(20):
        state.add(policy.contribution(plan, "q", votes, "neg", human=True))
    after = policy.decide(own_plan(state), votes)["q"]
    assert before == 0.5
    assert 0.5 < after.trust < 1.0
    assert (
        after.posterior["neg"] > policy.decide(own_plan(State.restore(taught)), votes)["q"].posterior["neg"]
    )


# -- what it learns


def test_a_round_that_asked_everyone_teaches_rewards_and_others_do_not(taught):
    state, policy = State.restore(taught), Joint()
    everyone = next(plan for plan in plans(state) if plan.stages.exploration == "everyone")
    alone = own_plan(state)
    assert len(policy.contribution(everyone, "q", cast("pos"), "pos").changes) == len(PRICES)
    asked = policy.ask(alone, {})
    assert policy.contribution(alone, "q", cast("pos", asked), "pos").changes == ()


def test_every_round_leaves_its_pattern(taught):
    state = State.restore(taught)
    assert state.exploration.patterns.total() == state.rounds == 60
    assert 36 <= state.exploration.everyone_rounds(PRICES) <= 60
    assert state.exploration.everyone_rounds({*PRICES, "new"}) == 0


@pytest.mark.parametrize("labels", [("neg", "pos"), LABELS])
@pytest.mark.parametrize("human", [False, True], ids=["the vote", "a person"])
def test_a_withdrawn_round_leaves_the_state_as_it_was(labels, human):
    policy, state = Joint(), practised(45, labels)
    before = State.restore(state.snapshot())
    plan = policy.plan(observed(state, labels), PRICES)
    votes = cast(labels[0], policy.ask(plan, {}))
    lesson = policy.contribution(plan, "q", votes, labels[0], human=human)
    state.add(lesson)
    assert state.exploration != before.exploration
    state.add(lesson.withdrawal())
    assert_same_state(state, before)
    assert state.exploration == before.exploration


@pytest.mark.parametrize("labels", [("neg", "pos"), LABELS])
def test_a_state_from_a_snapshot_plans_the_same(labels):
    state = practised(45, labels)
    again = State.restore(state.snapshot())
    assert again.exploration == state.exploration
    assert again.exploration.evidence.patterns == state.exploration.evidence.patterns
    one, other = (Joint().plan(observed(of, labels), PRICES) for of in (state, again))
    assert json.dumps(one.describe("q"), sort_keys=True) == json.dumps(other.describe("q"), sort_keys=True)


@pytest.mark.parametrize("everyone", [True, False], ids=["asked everyone", "stopped early"])
def test_a_stored_round_is_corrected_as_if_the_label_had_come_at_once(taught, everyone):
    state, policy = State.restore(taught), Joint()
    wanted = "everyone" if everyone else "nobody"
    plan = next(plan for plan in plans(state) if plan.stages.exploration == wanted)
    votes = cast("pos", policy.ask(plan, {}))
    voted = policy.contribution(plan, "q", votes, "pos")
    at_once = State.restore(taught)
    at_once.add(policy.contribution(plan, "q", votes, "neg", human=True))
    described = json.loads(json.dumps(plan.describe("q") | {"aggregation": {"name": "labels"}}))
    said = {arm: answers["q"] for arm, answers in votes.items()}
    stored = TaughtRound.stored(described, context_of(plan), said)
    state.add(Contribution.unpack(voted.pack()))
    state.add(revision(voted, stored.contribution("neg", human=True)))
    assert_same_state(state, at_once)


def context_of(plan):
    return plan.estimates["q"].context


# -- the fit


def test_a_plan_takes_the_fit_that_its_observation_brings(taught):
    """The state has seen nothing but 36 rounds of everyone, so what is known is in the fit."""
    policy, state = Joint(), State.restore(taught)
    observation = observed(state)["q"]
    fit = fitted(policy.fit_data(observation, PRICES))
    plan = policy.plan({"q": replace(observation, fit=fit)}, PRICES)
    assert plan.stages.questions["q"].fit is fit.joint


def test_a_fit_of_another_policy_is_refused(taught):
    observation = observed(State.restore(taught))["q"]
    fit = fitted(Joint(agreement=0.9).fit_data(observation, PRICES))
    with pytest.raises(InvalidParameterError, match="another policy"):
        Joint().plan({"q": replace(observation, fit=fit)}, PRICES)


def test_its_fits_are_of_another_kind_than_those_of_other_policies(taught):
    """A project may change its policy while a server runs, and then the latest fit is not taken over."""
    state = State.restore(taught)
    state.add(
        Joint().contribution(own_plan(state), "q", cast("pos"), "neg", human=True),
    )
    observation = observed(state)["q"]
    kinds = {policy.fit_data(observation, PRICES).kind for policy in (Joint(), Joint(agreement=0.9))}
    assert len(kinds) == 2


def test_tasks_of_all_lengths_share_one_fit(taught):
    observation = observed(State.restore(taught))["q"]
    longer = {arm: price * (1.0 if arm == "a" else 3.0) for arm, price in PRICES.items()}
    one, other = (Joint().fit_data(observation, prices) for prices in (PRICES, longer))
    assert one == other


def test_votes_that_are_not_labels_need_no_fit():
    assert Joint().fit_data(Observation(State(2), CONTEXT, (), NumericVote(1.0, 5.0)), PRICES) is None


@pytest.mark.parametrize("worth", [0.0, -1.0, float("nan"), float("inf")])
def test_the_worth_of_a_right_label_is_positive_and_finite(worth):
    with pytest.raises(InvalidParameterError, match="worth"):
        Joint(worth=worth)


def test_a_plan_of_another_policy_is_refused(taught):
    plan = Majority().plan(observed(State.restore(taught)), PRICES)
    with pytest.raises(InvalidParameterError, match="does not ask in stages"):
        Joint().ask(plan, {})


def with_student(taught):
    """A plan of a round that does not ask everyone, with a student in the pool."""
    prices = {**PRICES, STUDENT: 0.0}
    return next(
        plan for plan in plans(State.restore(taught), prices=prices) if plan.stages.exploration == "nobody"
    )


def test_the_student_is_asked_first_and_alone(taught):
    plan = with_student(taught)
    assert Joint().ask(plan, {}) == (STUDENT,)


def test_while_the_student_is_silent_models_are_asked_as_without_it(taught):
    plan, without = with_student(taught), own_plan(State.restore(taught))
    assert Joint().ask(plan, {STUDENT: {}}) == Joint().ask(without, {})


def test_turning_the_student_on_does_not_begin_with_everyone_again(taught):
    assert with_student(taught).stages.propensity < 1.0


@pytest.mark.parametrize(("aggregation", "opening"), [(LABEL_VOTE, 36), (OpenVote(), 0)])
def test_only_votes_with_a_model_have_first_rounds_that_others_wait_for(
    aggregation: Aggregation, opening: int
) -> None:
    observation = Observation(State(dimension=2), np.array([1.0, 0.0]), ("a", "b"), aggregation)
    stages = Joint().plan({"q": observation}, {"small": 0.1, "large": 5.0}).stages
    assert stages is not None
    assert stages.opening == opening


@pytest.mark.parametrize("labels", [2, 4])
def test_of_two_arms_the_more_expensive_one_is_asked_where_the_cheap_one_is_often_contradicted(labels):
    prices = {"a": 5.0, "b": 0.05}
    found = table(600, LABELS[:labels], prices, np.array([0.9, 0.6]))
    trace = replay(Joint(), found, window=36)
    plain = (found.votes == found.truth[:, None]).mean()  # a tie of two votes is right half of the time
    assert (trace.labels == found.truth).mean() > plain + 0.05


def test_of_two_arms_that_agree_nearly_always_only_the_cheap_one_is_asked():
    found = table(600, LABELS[:2], {"a": 5.0, "b": 0.05}, np.array([0.97, 0.97]))
    assert replay(Joint(), found, window=36).costs.mean() < 0.35 * found.full_cost


@pytest.mark.parametrize("labels", [2, 4])
def test_of_two_arms_that_must_agree_with_all_votes_the_more_expensive_one_decides(labels):
    prices = {"a": 5.0, "b": 0.05}
    found = table(400, LABELS[:labels], prices, np.array([0.9, 0.6]))
    trace = replay(Joint(agreement=0.99), found, window=36)
    assert (trace.labels == found.votes[:, 0]).mean() > 0.97


def test_human_labels_that_no_model_ever_votes_for_do_not_make_the_policy_ask_more_models():
    found, rng = table(600), np.random.default_rng(0)
    unseen = np.where(rng.random(600) < 0.35, len(LABELS), found.truth)
    found = replace(found, labels=(*LABELS, "unseen"), truth=unseen)
    without, taught = (
        replay(Joint(), found, window=36, human=human) for human in (None, rng.random(600) < 0.2)
    )
    assert taught.costs.mean() < 1.1 * without.costs.mean()
