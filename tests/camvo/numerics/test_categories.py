"""Categories as vectors: nearly orthogonal, and in a context beside the embedding."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.numerics.small import _category_vector, with_category

NAMES = [f"subject {number}" for number in range(60)]


def embedding(dimension=384):
    vector = np.random.default_rng(0).normal(size=dimension)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("dimension", [1, 7, 8, 384, 1536])
def test_a_category_is_a_unit_vector(dimension):
    assert np.linalg.norm(_category_vector("de", dimension)) == pytest.approx(1.0)


def test_different_categories_are_nearly_orthogonal():
    vectors = np.array([_category_vector(name, 384) for name in NAMES])
    inner = vectors @ vectors.T - np.eye(len(NAMES))
    assert np.abs(inner).max() < 5.0 / np.sqrt(384)


def test_a_context_is_as_near_to_its_embedding_as_to_its_category():
    context = with_category(embedding(), "de")
    assert np.linalg.norm(context) == pytest.approx(1.0)
    assert context @ embedding() == pytest.approx(context @ _category_vector("de", 384), abs=1e-6)
    assert context @ embedding() > 0.6


def test_blanks_around_a_category_do_not_matter():
    assert with_category(embedding(), " de ").tobytes() == with_category(embedding(), "de").tobytes()


def test_a_blank_category_leaves_the_embedding_as_it_is():
    assert np.array_equal(with_category(embedding(), " "), embedding())


def test_a_context_is_stored_in_float32_without_loss():
    context = with_category(embedding(), "de")
    assert np.array_equal(context, context.astype(np.float32).astype(np.float64))


def test_a_category_without_an_embedding_is_its_vector():
    np.testing.assert_allclose(with_category(np.zeros(384), "de"), _category_vector("de", 384), atol=1e-7)
