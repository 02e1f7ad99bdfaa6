"""Batches and packing, each on and off: what a job costs in all four ways, and which of them is set now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from backend.models import Pool
from backend.quotes.asking import Asking, asking_if
from backend.quotes.job_tally import JobTally
from backend.quotes.pricing import usd_if
from backend.quotes.quote import Lever
from backend.settings import ModelSettings


def levers(  # noqa: PLR0917 - a job, and how it is asked now
    tally: JobTally,
    pool: Pool,
    models: Sequence[ModelSettings],
    now: Mapping[str, Asking],
    asked: Mapping[str, float],
    bill: float,
) -> tuple[Lever, ...]:
    """What the job costs with batches and packing on and off; ways that change nothing are left out.

    Args:
        tally: the tasks.
        pool: the models.
        models: their settings.
        now: model → how it is asked by the settings.
        asked: model → how often the policy asks it, in [0, 1]; empty if that is unknown.
        bill: the likely $ of the policy as it is set.
    """
    found: list[Lever] = []
    ways: set[tuple[Asking, ...]] = set()
    share = {model.name: asked.get(model.name, 1.0) for model in models}
    before = sum(share[model.name] * usd_if(tally, pool, model, now[model.name]) for model in models)
    for batch, pack in product((False, True), repeat=2):
        way = {model.name: asking_if(tally, pool, model, batch=batch, pack=pack) for model in models}
        if tuple(way.values()) in ways:
            continue
        ways.add(tuple(way.values()))
        usd = {model.name: usd_if(tally, pool, model, way[model.name]) for model in models}
        policy = sum(share[name] * usd[name] for name in usd)
        sizes = sorted({asking.pack for asking in way.values()} - {1})
        found.append(
            Lever(
                batch,
                sizes[-1] if sizes else None,
                sum(usd.values()),
                bill * policy / before if before else 0.0,
                on=way == dict(now),
            )
        )
    return tuple(found)
