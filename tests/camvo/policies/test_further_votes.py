"""What further votes are worth, beside closed forms and the plan at the price of a right label."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import camvo
from camvo.joint.joint_fit import JointFit
from camvo.policies.joint import Joint
from camvo.policies.past_rounds import _NOTHING, FurtherValue, PastRound, further_policy
from camvo.policies.policy import Conditions, Observation
from camvo.state.state import State

EAST = np.array([1.0, 0.0])
PRICES = {"a": 1.0, "b": 3.0, "c": 6.0}
SHARES = {"a": 0.1, "b": 0.3, "c": 0.6}
LABELS = ("x", "y", "z")

Further = Callable[[Mapping[str, str | None]], FurtherValue]


@pytest.fixture(scope="module")
def state() -> State:
    """What 150 tasks have shown of three models that are right in 60%, 75% and 90%."""
    question = camvo.Question(LABELS, prices=PRICES, dimension=2, policy=Joint(worth=1e6))
    rng = np.random.default_rng(4)
    for _ in range(150):
        truth, task = rng.integers(3), question.task(EAST)
        while arms := task.ask():
            right = {arm: rng.random() < 0.6 + 0.15 * "abc".index(arm) for arm in arms}
            wrong = {arm: (truth + rng.integers(1, 3)) % 3 for arm in arms}
            task.add({arm: LABELS[truth if right[arm] else wrong[arm]] for arm in arms})
        task.learn()
    return question.state


@pytest.fixture(scope="module")
def fit(state: State) -> JointFit:
    found = Joint().joint_fit(Observation(state, EAST, LABELS), PRICES)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def further(state: State) -> Further:
    """The best use of further votes on a task, by the votes that it has."""
    policy = further_policy(Joint())
    assert policy is not None
    return lambda votes: policy.further_votes(state, PastRound(EAST, votes, LABELS, PRICES))


def test_with_all_votes_there_is_nothing_to_ask(further: Further) -> None:
    assert further({"a": "x", "b": "y", "c": "z"}) == _NOTHING


def test_the_break_even_of_one_vote_is_its_gain_over_its_share(fit: JointFit, further: Further) -> None:
    votes = {"a": "x", "b": "y"}
    now = max(fit.probabilities(votes).values())
    lattice, node = fit.beliefs.lattice, fit.node(votes)
    [(level, at)] = [
        (level, number) for number, level in enumerate(lattice.steps) if (level[0].arm, len(level)) == (0, 3)
    ][:1]
    [(step, chances)] = [
        pair
        for pair in zip(level, fit.beliefs.votes[at], strict=True)
        if pair[0].arm == fit.shortlist.index("c")
    ]
    [column] = np.flatnonzero(step.nodes == node)
    after = [
        chance * fit.beliefs.surest[following]
        for chance, following in zip(chances[:, column], step.following[:, column], strict=True)
        if following >= 0
    ]
    exact = (sum(after) - now) / SHARES["c"]
    found = further(votes)
    assert found.arms == ("c",)
    assert found.break_even <= exact <= 1.26 * found.break_even


def test_a_model_that_gave_no_vote_is_not_asked_again(further: Further) -> None:
    assert "c" not in further({"a": "x", "c": None}).arms
    assert further({"a": "x", "b": "y", "c": None}) == _NOTHING


def test_doubt_is_worth_more_than_agreement(further: Further) -> None:
    apart, together = (further({"a": "x", "b": vote}).break_even for vote in ("y", "x"))
    assert apart > 2.0 * together


def test_a_policy_that_goes_on_asks_just_where_a_right_label_is_worth_it(
    state: State, further: Further
) -> None:
    votes = {"a": "x", "b": "y"}
    cast = {arm: {"q": vote} for arm, vote in votes.items()}
    even = further(votes).break_even
    for times, expected in ((1.1, ("c",)), (0.7, ())):
        policy = Joint().policy_for(times * sum(PRICES.values()) / even)
        plan = policy.plan({"q": Observation(state, EAST, LABELS)}, PRICES, Conditions(decided=True))
        assert policy.ask(plan, cast) == expected


def test_going_on_never_explores(state: State) -> None:
    policy = Joint().policy_for(1e-9)
    for number in range(50):
        context = np.array([np.cos(number), np.sin(number)])
        plan = policy.plan({"q": Observation(state, context, LABELS)}, PRICES, Conditions(decided=True))
        assert policy.ask(plan, {"a": {"q": "x"}}) == ()


def test_worth_in_dollars_is_worth_in_askings_at_their_price(state: State) -> None:
    observations = {"q": Observation(state, EAST, LABELS)}
    for factor in (0.2, 1.0, 5.0):
        prices = {arm: factor * price for arm, price in PRICES.items()}
        dollars = Joint(worth_usd=10.0 * sum(prices.values())).plan(observations, prices)
        askings = Joint(worth=10.0).plan(observations, prices)
        assert dollars.describe("q") == askings.describe("q")


def test_worth_in_dollars_asks_less_where_models_are_dearer(state: State) -> None:
    asked = []
    for factor in (0.01, 1.0, 100.0):
        prices = {arm: factor * price for arm, price in PRICES.items()}
        policy = Joint(worth_usd=30.0)
        plan = policy.plan({"q": Observation(state, EAST, LABELS)}, prices)
        votes = {arm: {"q": "x" if arm == "a" else "y"} for arm in policy.ask(plan, {})}
        while arms := policy.ask(plan, votes):
            votes |= {arm: {"q": "x" if arm == "a" else "y"} for arm in arms}
        asked.append(sum(SHARES[arm] for arm in votes))
    assert asked[0] > asked[-1]
    assert asked == sorted(asked, reverse=True)
