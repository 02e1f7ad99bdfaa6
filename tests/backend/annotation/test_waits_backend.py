"""What the time is worth by which a slow model delays other tasks: how it follows from calls and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import pytest

from backend.annotation.asking import Voters
from backend.annotation.job import Batching, Job
from backend.models import Pool
from backend.models.rates.answers import CallEnd
from backend.questions import parse_label_config
from backend.settings import Settings

CONFIG = parse_label_config(
    '<View><Text name="text" value="$text"/><Choices name="mood" toName="text">'
    '<Choice value="Glad"/><Choice value="Sad"/></Choices></View>'
)
QUICK: Mapping[str, float] = MappingProxyType({"quick": 0.0})


def waits(
    delays: Mapping[str, float], *, busy: bool = True, batching: Batching | None = None, **settings: Any
) -> dict[str, float]:
    """The waits of models after ten answers each; one more call delays the others by some seconds."""
    models = [
        {"name": name, "model": f"openai/{name}", "input_price": 0, "output_price": 0, "pack": pack}
        for name, pack in ((name, 10 if name == "packed" else None) for name in delays)
    ]
    chosen = Settings.model_validate({"models": models, "hour_usd": 36.0, **settings})

    async def main() -> dict[str, float]:
        pool = Pool(chosen.models)
        for name, delay in delays.items():
            gate = cast("Any", pool[name])._rates
            passages = [await gate.enter(100.0, 5.0) for _ in range(11)]
            for number, passage in enumerate(passages[:10]):
                gate.leave(passage, CallEnd(seconds=1.0 + delay * number))
            if not busy:
                gate.leave(passages[10], CallEnd())
        voters = Voters(*(cast("Any", each) for each in (None, pool, None, None)))
        job = Job("project", 1, {"text": "Rain."}, CONFIG, chosen, batching=batching)
        return voters.waits(job, chosen.arms)

    return asyncio.run(main())


def test_a_slow_model_costs_the_seconds_by_which_it_delays_the_others() -> None:
    assert waits({**QUICK, "slow": 4.0}) == {"slow": pytest.approx(0.04)}


def test_an_hour_that_is_worth_nothing_makes_no_model_slow() -> None:
    assert waits({**QUICK, "slow": 4.0}, hour_usd=0) == {}


def test_models_that_delay_others_alike_are_no_slower_than_each_other() -> None:
    assert waits({"one": 4.0, "other": 4.0}) == {}


def test_only_what_exceeds_the_delay_of_the_quickest_counts() -> None:
    assert waits({"slow": 1.0, "slower": 3.0}) == {"slower": pytest.approx(0.02)}


def test_what_an_idle_model_answers_meanwhile_is_free() -> None:
    assert waits({**QUICK, "slow": 4.0}, busy=False) == {"slow": 0.0}


def test_a_prompt_about_ten_tasks_delays_each_by_a_tenth() -> None:
    assert waits({**QUICK, "packed": 4.0}) == {
        "packed": pytest.approx(0.04),
        "packed:10": pytest.approx(0.004),
    }


def test_nobody_waits_for_a_providers_batch() -> None:
    assert waits({**QUICK, "slow": 4.0}, batching=Batching(frozenset({"quick"}), 2)) == {}
