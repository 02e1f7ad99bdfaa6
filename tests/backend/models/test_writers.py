"""Arms that write texts: longer answers, and no effect on what labels are expected to cost."""

from __future__ import annotations

import pytest

from backend.errors import ConfigError, ModelUnknownError
from backend.models import Pool
from backend.models.prices import Used
from backend.settings import ModelSettings

RED = ModelSettings(name="red", model="openai/red", input_price=1.0, output_price=2.0, max_tokens=50)


def test_a_writer_may_answer_at_length_and_in_its_own_time() -> None:
    pool = Pool([RED])
    writer = pool[pool.add_writer("red", 3000)].model.settings
    assert (writer.max_tokens, writer.timeout, writer.model) == (3000, 300.0, "openai/red")
    assert pool["red"].model.settings == RED


def test_what_a_writer_writes_changes_no_price_of_a_label() -> None:
    pool = Pool([RED])
    pool["red"].model.meter.observe(Used(100, 100, 5, 0))
    before = pool["red"].model.meter.output_tokens
    pool[pool.add_writer("red", 3000)].model.meter.observe(Used(100, 100, 2500, 0))
    assert pool["red"].model.meter.output_tokens == before


def test_a_writer_is_none_of_the_pools_models() -> None:
    pool = Pool([RED])
    pool.add_writer("red", 3000)
    assert pool.names == ("red",)


def test_an_unknown_model_is_no_writer() -> None:
    with pytest.raises(ModelUnknownError):
        Pool([RED]).add_writer("blue", 3000)


def test_an_embedded_voter_is_no_writer() -> None:
    voter = ModelSettings(name="words", model="embedded/hints", input_price=0.0, output_price=0.0)
    with pytest.raises(ConfigError, match="writes no texts"):
        Pool([voter]).add_writer("words", 3000)
