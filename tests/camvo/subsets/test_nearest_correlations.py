from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.subsets.confidence import nearest_psd, root

seeds = st.integers(0, 2**32 - 1)


def symmetric(rng, k):
    raw = rng.uniform(-1.0, 1.0, (k, k))
    matrix = (raw + raw.T) / 2.0
    np.fill_diagonal(matrix, 1.0)
    return matrix


@given(seeds, st.integers(1, 12))
@settings(deadline=None, max_examples=60)
def test_the_nearest_matrix_is_a_correlation_matrix(seed, k):
    nearest = nearest_psd(symmetric(np.random.default_rng(seed), k))
    assert np.linalg.eigvalsh(nearest).min() >= -1e-12
    assert np.all(np.diag(nearest) == 1.0)
    assert np.array_equal(nearest, nearest.T)
    assert np.all(np.abs(nearest) <= 1.0 + 1e-12)


def test_the_nearest_matrix_is_that_of_highams_example():
    """Higham (2002), §1: the distance is 0.5278 and these are the entries."""
    bad = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    nearest = nearest_psd(bad)
    expected = [[1.0, 0.7607, 0.1573], [0.7607, 1.0, 0.7607], [0.1573, 0.7607, 1.0]]
    np.testing.assert_allclose(nearest, expected, atol=1e-4)
    assert np.linalg.norm(nearest - bad) == pytest.approx(0.5278, abs=1e-4)


@given(seeds, st.integers(2, 8))
@settings(deadline=None, max_examples=40)
def test_no_other_correlation_matrix_is_nearer(seed, k):
    rng = np.random.default_rng(seed)
    matrix = symmetric(rng, k)
    distance = np.linalg.norm(nearest_psd(matrix) - matrix)
    values, vectors = np.linalg.eigh(matrix)
    cut = vectors * np.maximum(values, 0.0) @ vectors.T
    scale = np.sqrt(np.maximum(np.diag(cut), 1e-300))
    assert distance <= np.linalg.norm(cut / np.outer(scale, scale) - matrix) + 1e-6
    other = rng.normal(size=(k, k + 2))
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    mixed = 0.9 * nearest_psd(matrix) + 0.1 * other @ other.T
    assert distance <= np.linalg.norm(mixed - matrix) + 1e-6


@given(seeds, st.integers(1, 10))
@settings(deadline=None, max_examples=40)
def test_a_correlation_matrix_is_its_own_nearest_and_the_square_of_its_root(seed, k):
    rows = np.random.default_rng(seed).normal(size=(k, k + 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    matrix = rows @ rows.T
    np.fill_diagonal(matrix, 1.0)
    assert np.array_equal(nearest_psd(matrix), matrix)
    half = root(matrix)
    np.testing.assert_allclose(half @ half, matrix, atol=1e-10)
    np.testing.assert_allclose(half, half.T, atol=1e-12)
