from __future__ import annotations

import numpy as np
import pytest
from synthetic_votes import SyntheticModel
from topic_texts import draw_topic_texts

MODELS = {"large": SyntheticModel(0.9, 10.0), "small": SyntheticModel(0.7, 1.0)}


def drawn(seed: int = 0, **options: tuple[float, float]):  # type: ignore[no-untyped-def]
    return draw_topic_texts(MODELS, items=1500, topics=5, seed=seed, **options)


def test_models_are_as_accurate_as_asked() -> None:
    table = drawn()
    assert (table.votes == table.truth[:, None]).mean(axis=0) == pytest.approx([0.9, 0.7], abs=0.03)


def test_a_seed_draws_the_same_table_again_and_another_one_does_not() -> None:
    one, again, other = drawn(), drawn(), drawn(seed=1)
    assert (one.texts, one.votes.tolist()) == (again.texts, again.votes.tolist())
    assert one.texts != other.texts


def test_models_err_together() -> None:
    table = drawn()
    wrong = table.votes != table.truth[:, None]
    assert np.corrcoef(wrong.T)[0, 1] > 0.05


def test_texts_are_short() -> None:
    assert all(8 <= len(text.split()) <= 20 for text in drawn().texts or ())
