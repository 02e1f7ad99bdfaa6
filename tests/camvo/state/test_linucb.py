from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.state.arm import Inverse, score


def learn(inverse, context, sign):
    learn_all(inverse, context[None], sign)


def learn_all(inverse, contexts, sign):
    inverse.update(contexts, solved(inverse, contexts), sign)


def solved(inverse, contexts):
    out = np.empty_like(contexts)
    inverse.solve(contexts, out)
    return out


def unit(rng, dimension):
    vector = rng.normal(size=dimension)
    return vector / np.linalg.norm(vector)


@given(
    seed=st.integers(0, 2**32 - 1),
    dimension=st.integers(1, 80),
    count=st.integers(0, 50),
    lambda_l=st.floats(0.1, 10.0),
)
@settings(max_examples=80, deadline=None)
def test_the_inverse_is_that_of_the_sum_of_outer_products(seed, dimension, count, lambda_l):
    rng = np.random.default_rng(seed)
    inverse, a = Inverse(dimension, lambda_l), lambda_l * np.eye(dimension)
    for _ in range(count):
        context = unit(rng, dimension)
        learn(inverse, context, +1)
        a += np.outer(context, context)
    np.testing.assert_allclose(inverse.full(), np.linalg.inv(a), rtol=1e-9, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 30), st.integers(1, 5))
@settings(max_examples=80, deadline=None)
def test_what_is_solved_is_the_product_with_the_inverse(seed, dimension, count, asked):
    rng = np.random.default_rng(seed)
    inverse = Inverse(dimension, 0.7)
    if count:
        learn_all(inverse, rng.normal(size=(count, dimension)), +1)
    contexts = rng.normal(size=(asked, dimension))
    np.testing.assert_allclose(solved(inverse, contexts), contexts @ inverse.full(), atol=1e-10)


def test_the_inverse_stays_positive_definite_through_thousands_of_updates_and_withdrawals():
    rng, dimension, lambda_l = np.random.default_rng(4), 16, 0.5
    inverse, held = Inverse(dimension, lambda_l), []
    for _ in range(6000):
        if held and rng.random() < 0.49:
            learn(inverse, held.pop(rng.integers(len(held))), -1)
        else:
            held.append(unit(rng, dimension))
            learn(inverse, held[-1], +1)
    full = inverse.full()
    a = lambda_l * np.eye(dimension) + sum(np.outer(context, context) for context in held)
    assert np.array_equal(full, full.T)
    assert np.linalg.eigvalsh(full).min() > 0.0
    np.testing.assert_allclose(full, np.linalg.inv(a), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("count", [1, 5])
def test_the_score_is_the_ridge_estimate_and_its_squared_width(count):
    rng, dimension, lambda_l = np.random.default_rng(5), 7, 2.0
    asked, b, computed, expected = rng.normal(size=(count, dimension)), [], [], []
    for _ in range(2):
        inverse = Inverse(dimension, lambda_l)
        contexts, rewards = rng.normal(size=(30, dimension)), rng.integers(2, size=30).astype(float)
        learn_all(inverse, contexts, +1)
        computed.append(solved(inverse, asked))
        b.append(contexts.T @ rewards)
        a_inverse = np.linalg.inv(lambda_l * np.eye(dimension) + contexts.T @ contexts)
        expected.append((asked @ a_inverse @ b[-1], np.diag(asked @ a_inverse @ asked.T)))
    for mine, theirs in zip(score(np.array(computed), np.array(b), asked), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 80), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_many_contexts_at_once_are_as_one_by_one(seed, dimension, count):
    rng = np.random.default_rng(seed)
    together, apart = (Inverse(dimension, 0.7) for _ in range(2))
    contexts = rng.normal(size=(count, dimension))
    learn_all(together, contexts, +1)
    for context in contexts:
        learn(apart, context, +1)
    np.testing.assert_allclose(together.full(), apart.full(), atol=1e-10)
    half = contexts[::2].copy()
    learn_all(together, half, -1)
    for context in half:
        learn(apart, context, -1)
    np.testing.assert_allclose(together.full(), apart.full(), atol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_arrays_bring_back_the_same_inverse_to_the_bit(seed, dimension, count):
    rng = np.random.default_rng(seed)
    inverse = Inverse(dimension, 0.5)
    contexts = rng.normal(size=(count, dimension))
    for context in contexts:
        learn(inverse, context, +1)
    if count:
        learn(inverse, contexts[0], -1)
    again = Inverse.from_arrays(*inverse.to_arrays(), 0.5)
    for other in (again, inverse):
        learn(other, np.ones(dimension), +1)
    left = [*contexts[1:], np.ones(dimension)]
    a = 0.5 * np.eye(dimension) + sum(np.outer(context, context) for context in left)
    assert np.array_equal(again.full(), inverse.full())
    np.testing.assert_allclose(again.full(), np.linalg.inv(a), atol=1e-8)


def test_a_matrix_is_updated_in_place():
    inverse = Inverse(3, 1.0)
    learn(inverse, np.array([1.0, 0.0, 0.0]), +1)
    matrix, _ = inverse.to_arrays()
    learn(inverse, np.array([0.0, 1.0, 0.0]), +1)
    assert inverse.to_arrays()[0] is matrix
    assert matrix[[0, 1, 2], [0, 1, 2]].tolist() == pytest.approx([0.5, 0.5, 1.0])


def test_an_arm_that_has_learnt_little_takes_little():
    inverse = Inverse(384, 1.0)
    learn_all(inverse, np.random.default_rng(0).normal(size=(10, 384)), +1)
    assert sum(array.nbytes for array in inverse.to_arrays()) == 10 * 385 * 8


@given(st.integers(0, 2**32 - 1), st.integers(1, 80), st.booleans())
@settings(max_examples=60, deadline=None)
def test_what_is_withdrawn_leaves_no_trace(seed, dimension, together):
    rng = np.random.default_rng(seed)
    inverse, contexts = Inverse(dimension, 0.5), rng.normal(size=(15, dimension)) / np.sqrt(dimension)
    learn_all(inverse, contexts, +1)
    before = inverse.full()
    more = rng.normal(size=(20, dimension)) / np.sqrt(dimension)
    for part in [more] if together else more[:, None]:
        learn_all(inverse, part, +1)
    for part in [more] if together else more[:, None]:
        learn_all(inverse, part, -1)
    np.testing.assert_allclose(inverse.full(), before, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dimension", [2, 40])
def test_withdrawing_from_an_arm_without_history_is_refused_and_changes_nothing(dimension, count):
    inverse = Inverse(dimension, 1.0)
    with pytest.raises(InvalidParameterError, match="never added"):
        learn_all(inverse, np.ones((count, dimension)), -1)
    assert np.array_equal(inverse.full(), np.eye(dimension))
