"""A model's name that is nearly a known one: the cure names that one."""

from __future__ import annotations

from typing import Any

import pytest

from backend.errors import ConfigError, PriceMissingError
from backend.models.model import Model
from backend.settings import ModelSettings


def refusal(model: str, **further: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Model(ModelSettings(name="a", model=model, **further), key="none")
    return caught.value


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("gtp-4o", "openai/gpt-4o"),
        ("opneai/gpt-4o", "openai/gpt-4o"),
        ("openai/gpt-4oo", "openai/gpt-4o"),
        ("anthropic/claude-haiku-4.5", "anthropic/claude-haiku-4-5"),
        ("embedded/keyword", "embedded/keywords"),
    ],
)
def test_a_misspelt_model_is_refused_with_the_name_that_was_meant(model: str, meant: str) -> None:
    assert str(refusal(model).fix).startswith(f"did you mean {meant}?")


def test_a_model_without_a_price_can_be_given_one_all_the_same() -> None:
    error = refusal("openai/gpt-4oo")
    assert isinstance(error, PriceMissingError)
    assert str(error.fix).endswith("Or set input_price in dollars per million tokens; write 0 if it is free")


@pytest.mark.parametrize("further", [{"api_base": "http://127.0.0.1:8000/v1"}, {}])
def test_no_other_model_is_named_for_one_of_an_own_server_or_of_an_unlike_name(
    further: dict[str, Any],
) -> None:
    model = "openai/gpt-4oo" if further else "openai/our-own-fine-tuned-heron"
    assert "did you mean" not in str(refusal(model, **further).fix)
