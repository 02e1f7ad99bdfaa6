"""How models are asked: about one task or several in a prompt, at once or in providers' batches."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from backend.models import Pool
from backend.models.prices import TokenMeter, TokenPrices
from backend.quotes.job_tally import JobTally
from backend.settings import ModelSettings
from camvo.twins.same_model import packed_arm

PACK: Final = 20
"""The tasks in one prompt, for what packing would save at a model that does not pack."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How one model is asked.

    Attributes:
        batch: whether in its provider's batches.
        pack: the most tasks in a prompt; 1 for one.
    """

    batch: bool
    pack: int

    def arm(self, model: ModelSettings) -> str:
        """The name of the arm that votes."""
        return packed_arm(model.name, self.pack) if self.pack > 1 else model.name


def asking_now(tally: JobTally, pool: Pool, model: ModelSettings, batched: Set[str]) -> Asking:
    """How a model is asked by the settings.

    Args:
        tally: knows whether tasks may share prompts.
        pool: the models.
        model: the model.
        batched: the models that are asked in batches.
    """
    return asking_if(tally, pool, model, batch=model.name in batched, pack=model.pack is not None)


def asking_if(tally: JobTally, pool: Pool, model: ModelSettings, *, batch: bool, pack: bool) -> Asking:
    """How a model would be asked with batches and packing on or off, as far as it can be.

    Batches whose price is unknown save nothing.
    """
    packs = pack and tally.packable > 0 and not model.is_embedded
    return Asking(batch and pool.batch_prices(model.name) is not None, (model.pack or PACK) if packs else 1)


def meter_of(pool: Pool, model: ModelSettings, asking: Asking) -> TokenMeter:
    """What was measured of an arm; of its twin, if only that was asked so far."""
    own = asking.arm(model)
    known = {model.name} | ({model.packed.name} if model.packed is not None else set())
    measured = sorted((name for name in known if pool.meter(name).calls), key=lambda name: name != own)
    return pool.meter(measured[0] if measured else own if own in known else model.name)


def in_a_prompt(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> float:
    """The tasks in a prompt: as measured, or as many as fit."""
    if asking.pack == 1:
        return 1.0
    meter = meter_of(pool, model, asking)
    tasks = meter.tasks_in_prompt if meter.tasks_in_prompt > 1.0 else float(asking.pack)
    return max(min(tasks, float(tally.packable)), 1.0)


def prices_of(pool: Pool, model: ModelSettings, asking: Asking) -> TokenPrices:
    """The prices of one model's tokens."""
    return (pool.batch_prices(model.name) if asking.batch else None) or pool.prices(model.name)
