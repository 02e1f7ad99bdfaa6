"""Made-up projects with and without drift: a quick version of ``benchmarks/drift.py``."""

from __future__ import annotations

import pytest
from drift import ask_everyone, drawn, waited

from camvo.state.contribution import Restart


def first(kind: str, seed: int, tasks: int, rate: float) -> tuple[Restart | None, int | None]:
    """The first restart since the drift began, and the exploration rounds until then."""
    project = drawn(kind, seed, tasks)
    alarms = ask_everyone(project, rate, seed)
    found = [restart for task, restart in alarms.restarts if task >= project.begins]
    return (found[0] if found else None), waited(kind, project, alarms)


@pytest.mark.parametrize("seed", range(2))
def test_a_model_that_breaks_is_blamed_within_500_rounds(seed):
    restart, rounds = first("breaks", seed, tasks=1_500, rate=0.3)
    assert restart.arm == drawn("breaks", seed, 1_500).broken
    assert rounds <= 500


@pytest.mark.parametrize("seed", range(2))
def test_a_harder_third_raises_an_alarm_within_500_rounds(seed):
    _, rounds = first("harder", seed, tasks=1_500, rate=0.3)
    assert rounds <= 500


@pytest.mark.parametrize("seed", range(2))
def test_tasks_in_random_order_from_unchanged_models_raise_none(seed):
    assert not ask_everyone(drawn("none", seed, 1_500), 0.3, seed).restarts
