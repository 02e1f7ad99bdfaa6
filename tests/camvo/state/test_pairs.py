from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.state.arm import PairSums
from camvo.state.contribution import Change, Contribution, revision
from camvo.state.state import State

ARMS = ("a", "b", "c", "d")
seeds = st.integers(0, 2**32 - 1)


def algorithm_3(rounds, arms):
    """Appendix G, Algorithm 3, line by line. σ = 0 is left to divide: callers give every arm some spread."""
    n, mu, sigma = (dict.fromkeys(arms, 0.0) for _ in range(3))
    m = {(i, j): 0.0 for i in arms for j in arms}
    pairs = {(i, j): 0 for i in arms for j in arms}
    c = {(i, j): float(i == j) for i in arms for j in arms}
    for r in rounds:
        for i in r:
            old = mu[i]
            n[i] += 1
            delta = r[i] - old
            mu[i] = old + delta / n[i]
            m[i, i] += (r[i] - mu[i]) * (r[i] - old)
            sigma[i] = np.sqrt(m[i, i] / (n[i] - 1)) if n[i] > 1 else 0.0
        chosen = list(r)
        for position, i in enumerate(chosen):
            for j in chosen[position + 1 :]:
                m[i, j] += (r[i] - mu[i]) * (r[j] - mu[j])
                m[j, i] = m[i, j]
                pairs[i, j] = pairs[j, i] = pairs[i, j] + 1
                if pairs[i, j] > 1 and sigma[i] * sigma[j] > 0.0:
                    covariance = m[i, j] / (pairs[i, j] - 1)
                    c[i, j] = c[j, i] = float(np.clip(covariance / (sigma[i] * sigma[j]), -1.0, 1.0))
    return np.array([[c[i, j] for j in arms] for i in arms])


def together(rng, count, arms=ARMS):
    """Rounds in which everyone votes, the arms sharing a part of their luck."""
    latent = 0.6 * rng.normal(size=(count, 1)) + 0.8 * rng.normal(size=(count, len(arms)))
    return [dict(zip(arms, row, strict=True)) for row in (latent < 0.5).astype(float).tolist()]


def summed(rounds, sign=1, into=None):
    sums = PairSums() if into is None else into
    sums.add(rounds, sign)
    return sums


def test_rounds_add_up_the_same_one_by_one_and_together():
    rng = np.random.default_rng(1)
    rounds = [{a: float(rng.integers(2)) for a in ARMS if rng.random() < 0.7} for _ in range(30)]
    one_by_one = PairSums()
    for rewards in rounds:
        one_by_one.add([rewards], +1)
    assert np.array_equal(one_by_one.sums, summed(rounds).sums)


@pytest.mark.parametrize("seed", range(5))
def test_with_all_arms_in_all_rounds_algorithm_3_is_met_up_to_its_first_rounds(seed):
    rng = np.random.default_rng(seed)
    gaps = []
    for count in (100, 3000):
        rounds = together(rng, count)
        gaps.append(np.abs(summed(rounds).correlation(ARMS) - algorithm_3(rounds, ARMS)).max())
    assert gaps[0] < 0.1
    assert gaps[1] < 0.01


@given(seeds, st.integers(2, 60), st.booleans())
@settings(deadline=None, max_examples=40)
def test_the_correlation_of_a_pair_is_that_of_its_common_rounds(seed, count, fractions):
    rng = np.random.default_rng(seed)
    draw = (lambda: round(rng.random(), 2)) if fractions else lambda: float(rng.integers(2))
    rounds = [{arm: draw() for arm in ARMS if rng.random() < 0.7} for _ in range(count)]
    rho = summed(rounds).correlation(ARMS)
    for i, arm in enumerate(ARMS):
        for j, other in enumerate(ARMS):
            common = np.array([(r[arm], r[other]) for r in rounds if arm in r and other in r]).reshape(-1, 2)
            spread = len(common) > 1 and np.all(np.ptp(common, axis=0) > 0.0)
            expected = 1.0 if i == j else np.corrcoef(common.T)[0, 1] if spread else 0.0
            assert rho[i, j] == pytest.approx(expected, abs=1e-9)


@given(seeds, st.integers(0, 40))
@settings(deadline=None, max_examples=40)
def test_the_correlation_is_symmetric_with_unit_diagonal_and_within_one(seed, count):
    rng = np.random.default_rng(seed)
    rounds = [{a: float(rng.integers(2)) for a in ARMS if rng.random() < 0.6} for _ in range(count)]
    rho = summed(rounds).correlation((*ARMS, "nobody"))
    assert np.array_equal(rho, rho.T)
    assert np.all(np.diag(rho) == 1.0)
    assert np.all(np.abs(rho) <= 1.0)
    assert np.all(rho[-1, :-1] == 0.0)


def test_an_arm_that_is_always_right_is_correlated_with_nobody():
    rounds = [{"a": 1.0, "b": float(k % 2), "c": float(k % 2)} for k in range(10)]
    rho = summed(rounds).correlation("abc")
    assert rho.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, pytest.approx(1.0)], [0.0, pytest.approx(1.0), 1.0]]


def test_opposite_arms_have_correlation_minus_one():
    rounds = [{"a": float(k % 2), "b": float((k + 1) % 2)} for k in range(7)]
    assert summed(rounds).correlation("ab")[0, 1] == pytest.approx(-1.0)


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_rounds_taken_back_leave_the_sums_as_if_they_had_never_been(seed):
    rng = np.random.default_rng(seed)
    stay, go = together(rng, 20), [{a: rng.random() for a in ARMS if rng.random() < 0.6} for _ in range(20)]
    sums = summed(go, -1, summed(stay, +1, summed(go)))
    expected = summed(stay)
    order = [sums.names.index(arm) for arm in expected.names]
    np.testing.assert_allclose(
        sums.sums[:, np.array(order)[:, None], order], expected.sums, rtol=0.0, atol=1e-9
    )
    np.testing.assert_allclose(sums.correlation(ARMS), expected.correlation(ARMS), atol=1e-9)


@given(seeds, st.permutations(ARMS))
@settings(deadline=None, max_examples=25)
def test_the_order_of_arms_permutes_the_matrix_and_nothing_else(seed, order):
    rng = np.random.default_rng(seed)
    rounds = [{a: float(rng.integers(2)) for a in ARMS if rng.random() < 0.8} for _ in range(15)]
    shuffled = [{arm: r[arm] for arm in order if arm in r} for r in rounds]
    at = [ARMS.index(arm) for arm in order]
    rho, shuffled_rho = summed(rounds).correlation(ARMS), summed(shuffled).correlation(order)
    assert np.array_equal(rho[np.ix_(at, at)], shuffled_rho)


def test_a_revision_of_a_round_moves_its_pairs():
    voted = Contribution(np.ones(2), tuple(Change(a, 0.5, None, 1.0) for a in "abc"))
    human = Contribution(
        np.ones(2), tuple(Change(a, 0.5, None, r) for a, r in zip("abc", (0.0, 1.0, 0.0), strict=True))
    )
    state, direct = State(2), State(2)
    state.add(voted)
    state.add(revision(voted, human))
    direct.add(human)
    assert np.array_equal(state.pairs.sums, direct.pairs.sums)
    state.add(revision(human, Contribution(np.ones(2), (), rounds=0)))
    assert not state.pairs.sums.any()


def test_a_lone_reward_makes_no_pair():
    state = State(2)
    state.add(Contribution(np.ones(2), (Change("a", 0.5, None, 1.0),)))
    assert state.pairs.names == ()
