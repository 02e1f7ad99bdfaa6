"""Algorithms 1 and 2 beside literal transcriptions of them, and one round of Algorithm 1 by hand."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from lemma_1 import confidence_by_lemma_1
from scipy import stats

from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Baseline
from camvo.policies.policy import Observation
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

EPSILON = 1e-6


class Paper:
    """Algorithm 1 as it is printed: A is inverted every time, every q is remembered, every set is tried."""

    def __init__(
        self, arms, costs, labels, dimension, *, delta, k_min, alpha, lambda_l, lambda_r, exact_form
    ):
        self.arms, self.costs, self.labels = arms, costs, labels
        self.delta, self.k_min, self.alpha, self.lambda_r = delta, k_min, alpha, lambda_r
        self.exact_form, self.t = exact_form, 1
        self.a = {arm: lambda_l * np.eye(dimension) for arm in arms}
        self.b = {arm: np.zeros(dimension) for arm in arms}
        self.rewards = {arm: [] for arm in arms}
        self.estimates = {arm: {0: [], 1: []} for arm in arms}

    def est(self, arm, theta, mu):
        shapes = []
        for sample in (self.estimates[arm][1], self.estimates[arm][0]):
            if len(sample) < 2 or np.var(sample) < 1e-12 or not 0.0 < mu < 1.0:
                return mu
            mean, ceiling = np.mean(sample), np.mean(sample) * (1.0 - np.mean(sample))
            if ceiling <= EPSILON:
                return mu
            nu = ceiling / min(max(np.var(sample), EPSILON), ceiling * (1.0 - EPSILON)) - 1.0
            shapes.append((mean * nu, (1.0 - mean) * nu))
        theta = min(max(theta, EPSILON), 1.0 - EPSILON)
        right = math.log(mu) + stats.beta.logpdf(theta, *shapes[0])
        wrong = math.log(1.0 - mu) + stats.beta.logpdf(theta, *shapes[1])
        return 1.0 / (1.0 + np.exp(wrong - right))

    def score(self, context):
        self.q, self.lower, self.weight = {}, {}, {}
        for arm in self.arms:
            n = len(self.rewards[arm])
            inverse = np.linalg.inv(self.a[arm])
            q = context @ inverse @ self.b[arm]
            theta = q - self.alpha * np.sqrt(context @ inverse @ context)
            theta = min(max(theta, 0.0), 1.0)
            likely = self.est(arm, theta, np.mean(self.rewards[arm]) if n else 0.5)
            mass = self.lambda_r * math.log(self.t + 1)
            self.q[arm] = q
            self.lower[arm] = (likely * n + mass / 2.0) / (n + mass)
            self.weight[arm] = (np.mean(self.rewards[arm]) if n else 1.0) * min(max(q, 0.0), 1.0)

    def confidence(self, arms):
        lower = np.array([self.lower[arm] for arm in arms])
        weight = np.array([self.weight[arm] for arm in arms])
        if self.exact_form:
            return confidence_by_lemma_1(lower, weight)
        right, wrong = float(weight @ lower), float(weight @ (1.0 - lower))
        return 0.0 if right <= 1e-12 else stats.beta.sf(0.5, right, wrong)

    def choose(self):
        good = [
            (sum(self.costs[arm] for arm in arms), arms)
            for size in range(self.k_min, len(self.arms) + 1)
            for arms in combinations(self.arms, size)
            if self.confidence(arms) >= self.delta
        ]
        return min(good)[1] if good else self.arms

    def vote(self, votes):
        weight = self.weight if any(self.rewards.values()) else dict.fromkeys(self.arms, 1.0)
        for score in (weight, self.lower):
            totals = {
                label: sum(score[arm] for arm in votes if votes[arm] == label) for label in votes.values()
            }
            best = [label for label in totals if totals[label] >= max(totals.values()) - 1e-12]
            votes = {arm: vote for arm, vote in votes.items() if vote in best}
        return min(best, key=self.labels.index)

    def learn(self, context, votes, label):
        self.t += 1
        if len(votes) < 2:
            return
        for arm, vote in votes.items():
            reward = int(vote == label)
            self.rewards[arm].append(reward)
            self.a[arm] += np.outer(context, context)
            self.b[arm] += reward * context
            self.estimates[arm][reward].append(min(max(self.q[arm], 0.0), 1.0))


def stream(seed, arms, labels, dimension, rounds):
    """Contexts and the votes of all arms; each arm's skill depends on the context."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=(len(arms), dimension))
    for _ in range(rounds):
        context = rng.normal(size=dimension)
        context /= np.linalg.norm(context)
        truth = labels[rng.integers(len(labels))]
        right = 1.0 / (1.0 + np.exp(-1.5 - skill @ context))
        yield (
            context,
            {
                arm: truth if rng.random() < chance else labels[rng.integers(len(labels))]
                for arm, chance in zip(arms, right, strict=True)
            },
        )


@pytest.mark.parametrize("form", ["beta", "exact"])
@pytest.mark.parametrize(("seed", "delta", "k_min"), [(0, 0.8, 1), (1, 0.9, 2), (2, 0.95, 3), (3, 0.6, 1)])
def test_with_n0_1_the_policy_is_algorithm_1(form, seed, delta, k_min):
    arms, labels, dimension = ("a", "b", "c", "d", "e"), ("no", "yes", "maybe"), 4
    costs = dict(zip(arms, np.random.default_rng(seed + 100).random(5).tolist(), strict=True))
    parameters = {"delta": delta, "k_min": k_min, "alpha": 0.3, "lambda_r": 0.5}
    policy = CaMVo(**parameters, n0=1, confidence=form)
    state = State(dimension, 0.8)
    paper = Paper(arms, costs, labels, dimension, lambda_l=0.8, exact_form=form == "exact", **parameters)
    sizes = set()
    for context, everyone in stream(seed, arms, labels, dimension, 200):
        paper.score(context)
        plan = policy.plan({"q": Observation(state, context, labels)}, costs)
        estimates = plan.estimates["q"]
        for column, expected in (
            (estimates.q, paper.q),
            (estimates.lower, paper.lower),
            (estimates.weights, paper.weight),
        ):
            np.testing.assert_allclose(column, list(expected.values()), rtol=0.0, atol=1e-8)
        assert plan.subset == paper.choose()
        sizes.add(len(plan.subset))
        votes = {arm: {"q": everyone[arm]} for arm in plan.subset}
        assert policy.ask(plan, votes) == ()
        label = policy.decide(plan, votes)["q"].label
        assert label == paper.vote({arm: everyone[arm] for arm in plan.subset})
        state.add(policy.contribution(plan, "q", votes, label))
        paper.learn(context, {arm: everyone[arm] for arm in plan.subset}, label)
    assert state.rounds == 200
    assert len(sizes) > 1


@pytest.mark.parametrize("seed", [0, 1])
def test_the_baseline_is_algorithm_2(seed):
    arms, labels, dimension = ("a", "b", "c", "d"), ("no", "yes", "maybe"), 3
    policy, state = Baseline(), State(dimension)
    agreed, clear = {arm: [] for arm in arms}, 0
    for context, everyone in stream(seed, arms, labels, dimension, 200):
        plan = policy.plan({"q": Observation(state, context, labels)}, dict.fromkeys(arms, 1.0))
        assert plan.subset == arms
        votes = {arm: {"q": vote} for arm, vote in everyone.items()}
        label = policy.decide(plan, votes)["q"].label
        weights = {arm: np.mean(agreed[arm]) if agreed[arm] else 1.0 for arm in arms}
        totals = {name: sum(weights[arm] for arm in arms if everyone[arm] == name) for name in labels}
        best = [name for name in labels if totals[name] >= max(totals.values()) - 1e-12]
        assert label in best
        clear += len(best) == 1
        state.add(policy.contribution(plan, "q", votes, label))
        for arm in arms:
            agreed[arm].append(everyone[arm] == label)
    assert clear > 150
    assert [state[arm].mu for arm in arms] == [np.mean(agreed[arm]) for arm in arms]


def test_one_round_of_algorithm_1_by_hand():
    # Four rounds are over, λ_L = 1, contexts east, north, east, north, so A = diag(3, 3) for every arm.
    # Rewards: a 1 1 1 1, b 1 0 1 0, c 0 1 0 0. So b_a = (2, 2), b_b = (2, 0), b_c = (0, 1);
    # μ = 1, 1/2, 1/4. The estimates of b's right rounds were .2 and .6: mean .4, variance .04,
    # ν = .24/.04 − 1 = 5, Beta(2, 3). Those of its wrong rounds were .5 ± √.05: mean .5, variance .05,
    # ν = .25/.05 − 1 = 4, Beta(2, 2). Arms a and c have no two rounds of both kinds: Est = μ.
    spread = math.sqrt(0.05)
    estimates_of_b, rewards = (0.2, 0.5 - spread, 0.6, 0.5 + spread), {"a": "1111", "b": "1010", "c": "0100"}
    state = State(dimension=2, lambda_l=1.0)
    for t, context in enumerate(np.array([[1.0, 0.0], [0.0, 1.0]] * 2)):
        q = {"a": 0.5, "b": estimates_of_b[t], "c": 0.5}
        state.add(
            Contribution(context, tuple(Change(arm, q[arm], None, float(rewards[arm][t])) for arm in "abc"))
        )

    # Round 5, e = (.6, .8), α = 1/4, λ_R = 1, δ = .8, k_min = 2, costs 3, 1, 1/2.
    policy = CaMVo(delta=0.8, k_min=2, alpha=0.25, lambda_r=1.0, n0=1, confidence="exact")
    context = np.array([0.6, 0.8])
    plan = policy.plan({"q": Observation(state, context, ("yes", "no"))}, {"a": 3.0, "b": 1.0, "c": 0.5})
    estimates = plan.estimates["q"]
    # q = eᵀb/3: 2.8/3, 1.2/3, .8/3; the width is √(eᵀe/3) = 1/√3 for all.
    assert estimates.q == pytest.approx([2.8 / 3.0, 0.4, 0.8 / 3.0], abs=1e-12)
    # θ_b = .4 − 1/(4√3). The densities at θ are 12θ(1−θ)² and 6θ(1−θ) with μ = 1/2, so
    # Est(θ) = 2(1−θ) / (2(1−θ) + 1).
    theta = 0.4 - 0.25 / math.sqrt(3.0)
    est = 2.0 * (1.0 - theta) / (2.0 * (1.0 - theta) + 1.0)
    assert est == pytest.approx(0.598180, abs=1e-6)
    # L = (4·Est + ln 6 / 2) / (4 + ln 6): t + 1 = 6.
    log_6 = math.log(6.0)
    lower = [(4.0 * likely + log_6 / 2.0) / (4.0 + log_6) for likely in (1.0, est, 0.25)]
    assert estimates.lower == pytest.approx(lower, abs=1e-12)
    assert lower == pytest.approx([0.845318, 0.567807, 0.327341], abs=1e-6)
    # ω = μ·q: .9333, .2, .0667. Arm a outweighs both others, so a set with a has δ_A = L_a = .845 ≥ .8,
    # and {b, c} has L_b. With two arms at least: {a, c} at 3.5, {a, b} at 4, all at 4.5.
    assert estimates.weights == pytest.approx([2.8 / 3.0, 0.2, 0.2 / 3.0], abs=1e-12)
    assert plan.subset == ("a", "c")
    assert plan.confidence == pytest.approx(lower[0], abs=1e-12)
    assert plan.propensity.tolist() == [1.0, 0.0, 1.0]

    # a says yes, c says no: .9333 against .0667. The score: correctness is (4·Est(q) + 2·¾) / (4 + 2), so
    # 5.5/6 for a and 2.5/6 for c, and P(yes) = 5.5·3.5 / (5.5·3.5 + .5·2.5) = 19.25/20.5.
    votes = {"a": {"q": "yes"}, "c": {"q": "no"}}
    decision = policy.decide(plan, votes)["q"]
    assert decision.label == "yes"
    assert decision.score == pytest.approx(19.25 / 20.5, abs=1e-12)

    # r_a = 1, r_c = 0. A⁻¹ of both: I/3 − eeᵀ/9 / (1 + 1/3) = I/3 − eeᵀ/12, where eeᵀ = (.36 .48; .48 .64).
    state.add(policy.contribution(plan, "q", votes, decision.label))
    inverse = [[1.0 / 3.0 - 0.03, -0.04], [-0.04, 1.0 / 3.0 - 0.64 / 12.0]]
    for arm in ("a", "c"):
        np.testing.assert_allclose(state[arm].inverse.full(), inverse, rtol=0.0, atol=1e-12)
    assert state["a"].b == pytest.approx([2.6, 2.8], abs=1e-12)
    assert state["c"].b.tolist() == [0.0, 1.0]
    assert (state.rounds, state["a"].rewards, state["b"].rewards, state["c"].rewards) == (5, 5, 4, 5)
    assert (state["a"].mu, state["b"].mu, state["c"].mu) == (1.0, 0.5, 0.2)
    assert (state["a"].mixture.correct.n, state["a"].mixture.correct.q) == (
        5.0,
        pytest.approx(2.0 + 2.8 / 3.0),
    )
    assert (state["c"].mixture.wrong.n, state["c"].mixture.wrong.q) == (4.0, pytest.approx(1.5 + 0.8 / 3.0))
