from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo import linucb
from camvo.errors import InvalidParameterError


def learn(inverse, context, sign):
    learn_all(inverse, context[None], sign)


def learn_all(inverse, contexts, sign):
    solved = np.empty_like(contexts)
    linucb.solve(inverse, contexts, solved)
    linucb.update_inverse(inverse, contexts, solved, sign)


def unit(rng, dimension):
    vector = rng.normal(size=dimension)
    return vector / np.linalg.norm(vector)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.floats(0.1, 10.0),
)
@settings(max_examples=40, deadline=None)
def test_the_inverse_is_that_of_the_sum_of_outer_products(seed, dimension, lambda_l):
    rng = np.random.default_rng(seed)
    inverse, a = linucb.fresh_inverse(dimension, lambda_l), lambda_l * np.eye(dimension)
    for _ in range(50):
        context = unit(rng, dimension)
        learn(inverse, context, +1)
        a += np.outer(context, context)
    np.testing.assert_allclose(linucb.full_inverse(inverse), np.linalg.inv(a), rtol=1e-9, atol=1e-12)


def test_the_inverse_stays_positive_definite_through_thousands_of_updates_and_withdrawals():
    rng, dimension, lambda_l = np.random.default_rng(4), 16, 0.5
    inverse, held = linucb.fresh_inverse(dimension, lambda_l), []
    for _ in range(6000):
        if held and rng.random() < 0.49:
            learn(inverse, held.pop(rng.integers(len(held))), -1)
        else:
            held.append(unit(rng, dimension))
            learn(inverse, held[-1], +1)
    full = linucb.full_inverse(inverse)
    a = lambda_l * np.eye(dimension) + sum(np.outer(context, context) for context in held)
    assert np.array_equal(full, full.T)
    assert np.linalg.eigvalsh(full).min() > 0.0
    np.testing.assert_allclose(full, np.linalg.inv(a), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("count", [1, 5])
def test_the_score_is_the_ridge_estimate_and_its_squared_width(count):
    rng, dimension, lambda_l = np.random.default_rng(5), 7, 2.0
    inverses = [linucb.fresh_inverse(dimension, lambda_l) for _ in range(2)]
    asked = rng.normal(size=(count, dimension))
    solved, b = np.empty((2, count, dimension)), np.empty((2, dimension))
    expected = []
    for arm, inverse in enumerate(inverses):
        contexts, rewards = rng.normal(size=(30, dimension)), rng.integers(2, size=30).astype(float)
        for context in contexts:
            learn(inverse, context, +1)
        linucb.solve(inverse, asked, solved[arm])
        b[arm] = contexts.T @ rewards
        a_inverse = np.linalg.inv(lambda_l * np.eye(dimension) + contexts.T @ contexts)
        expected.append((asked @ a_inverse @ b[arm], np.diag(asked @ a_inverse @ asked.T)))
    found = linucb.score(solved, b, asked)
    for (q, squares), (expected_q, expected_squares) in zip(found, expected, strict=True):
        np.testing.assert_allclose(q, expected_q, atol=1e-12)
        np.testing.assert_allclose(squares, expected_squares, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_many_contexts_at_once_are_as_one_by_one(seed, dimension, count):
    rng = np.random.default_rng(seed)
    together, apart = (linucb.fresh_inverse(dimension, 0.7) for _ in range(2))
    contexts = rng.normal(size=(count, dimension))
    learn_all(together, contexts, +1)
    for context in contexts:
        learn(apart, context, +1)
    np.testing.assert_allclose(linucb.full_inverse(together), linucb.full_inverse(apart), atol=1e-10)
    half = contexts[::2].copy()
    learn_all(together, half, -1)
    for context in half:
        learn(apart, context, -1)
    np.testing.assert_allclose(linucb.full_inverse(together), linucb.full_inverse(apart), atol=1e-9)


def test_a_reward_is_added_in_place():
    b, context = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    linucb.add_reward(b, context, 0.5)
    assert b.tolist() == [1.25, 1.5]


def test_an_update_happens_in_place():
    inverse = linucb.fresh_inverse(3, 1.0)
    address = inverse.__array_interface__["data"]
    learn(inverse, np.array([1.0, 0.0, 0.0]), +1)
    assert inverse[0, 0] == 0.5
    assert inverse.__array_interface__["data"] == address


@pytest.mark.parametrize(
    "inverse",
    [np.eye(3, order="C"), np.eye(3, dtype=np.float32, order="F")],
    ids=["row-major", "float32"],
)
def test_an_array_that_blas_would_copy_is_refused(inverse):
    with pytest.raises(InvalidParameterError, match="Fortran"):
        learn(inverse, np.ones(3), +1)


@pytest.mark.parametrize("count", [1, 3])
def test_withdrawing_from_an_arm_without_history_is_refused_and_changes_nothing(count):
    inverse = linucb.fresh_inverse(2, 1.0)
    with pytest.raises(InvalidParameterError, match="never added"):
        learn_all(inverse, np.ones((count, 2)), -1)
    assert np.array_equal(inverse, np.eye(2))
