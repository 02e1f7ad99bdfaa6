"""What the time is worth by which a slow model delays other tasks: how it follows from calls and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

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


_T = TypeVar("_T")


def asked(
    delays: Mapping[str, float],
    question: Callable[[Voters, Job], _T],
    *,
    busy: bool = True,
    batching: Batching | None = None,
    **settings: Any,
) -> _T:
    """What voters say of models after ten answers each; one more call delays the others by some seconds."""
    models = [
        {"name": name, "model": f"openai/{name}", "input_price": 0, "output_price": 0, "pack": pack}
        for name, pack in ((name, 10 if name == "packed" else None) for name in delays)
    ]
    chosen = Settings.model_validate({"models": models, "hour_usd": 36.0, **settings})

    async def main() -> _T:
        pool = Pool(chosen.models)
        for name, delay in delays.items():
            gate = cast("Any", pool[name])._rates
            passages = [await gate.enter(100.0, 5.0) for _ in range(11)]
            for number, passage in enumerate(passages[:10], 1):
                gate.leave(passage, CallEnd(seconds=max(delay * number, 1.0)))
            if not busy:
                gate.leave(passages[10], CallEnd())
        voters = Voters(*(cast("Any", each) for each in (None, pool, None, None)))
        return question(voters, Job("project", 1, {"text": "Rain."}, CONFIG, chosen, batching=batching))

    return asyncio.run(main())


def waits(delays: Mapping[str, float], **options: Any) -> dict[str, float]:
    return asked(delays, lambda voters, job: voters.waits(job, job.settings.arms), **options)


def late(delays: Mapping[str, float], *, waited: float, answers: int = 0, **options: Any) -> bool:
    return asked(
        delays,
        lambda voters, job: voters.is_late(job, "slow", job.settings.arms, waited=waited, answers=answers),
        **options,
    )


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


# -- whether a round still waits for a model's turn


def test_a_call_is_late_after_five_times_as_long_as_one_takes() -> None:
    assert not late({**QUICK, "slow": 4.0}, waited=19.0)
    assert late({**QUICK, "slow": 4.0}, waited=21.0)


def test_ten_seconds_are_always_waited() -> None:
    assert not late({**QUICK, "slow": 1.0}, waited=9.0)
    assert late({**QUICK, "slow": 1.0}, waited=11.0)


def test_a_model_that_has_answered_nobody_since_is_waited_for() -> None:
    assert not late({**QUICK, "slow": 4.0}, waited=3600.0, answers=10)


def test_a_model_that_is_as_quick_as_the_others_is_waited_for() -> None:
    assert not late({"quick": 4.0, "slow": 4.0}, waited=3600.0)


def test_if_an_hour_is_worth_nothing_a_slow_model_is_waited_for() -> None:
    assert not late({**QUICK, "slow": 4.0}, waited=3600.0, hour_usd=0)


# -- what progress says


def test_a_backlog_says_which_model_is_waited_for_and_how_long() -> None:
    backlogs = asked({**QUICK, "slow": 6.0}, lambda voters, job: voters.pool.backlogs)
    assert [*map(str, backlogs)] == ["waiting for slow (1 call, about 6 s)"]


def test_a_few_seconds_of_work_are_no_backlog() -> None:
    assert asked({"slow": 2.0}, lambda voters, job: voters.pool.backlogs) == []
