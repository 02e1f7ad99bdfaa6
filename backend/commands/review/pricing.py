"""What a label of a project costs and is worth, and what models would bring for the same money."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sqlalchemy import Connection

from backend.errors import ConfigError
from backend.learning.projects import project_settings
from backend.learning.states import States
from backend.ledger import Ledger, Writer, human_annotations, projects, reports, rounds
from backend.ledger.recounts import labelled_rounds
from backend.quotes.human_price import label_price
from backend.recounting.further.doubts import Doubting
from backend.recounting.recounter import Recounter
from backend.settings import Settings
from backend.settings.policies import policy_of
from camvo.policies.joint import Joint
from camvo.scores.reviews.label_value import NOTHING_SEEN, TaughtBefore


@dataclass(frozen=True, slots=True)
class Pricing:
    """What a human label costs and is worth.

    Attributes:
        label_usd: what one costs, in $.
        worth_usd: what one more right label is worth, in $.
        taught: how many human labels have taught already.
        seen: what they have taught.
        models: task → the right labels that a dollar brings if models are asked about it, where that is worth
            its price.
    """

    label_usd: float
    worth_usd: float
    taught: int = 0
    seen: TaughtBefore = NOTHING_SEEN
    models: Mapping[int, float] = field(default_factory=dict)


def load_pricing(ledger: Ledger, project: str, settings: Settings) -> Pricing | None:
    """Load what a label of a project costs and is worth.

    Args:
        ledger: the ledger.
        project: the project's key.
        settings: the server's settings.

    Returns:
        ``None`` if ``humans`` has no price, or nothing was predicted yet.

    Raises:
        ConfigError: the policy has no worth of a right label.
        LedgerError: the ledger cannot be read.
    """
    with ledger.read() as connection:
        price = label_price(connection, project, settings.humans)
        if price is None:
            return None
        own, _ = project_settings(projects.get(connection, project), settings)
        full = _full_cost(connection, project)
        taught = human_annotations.count(connection, project)
        seen = labelled_rounds.taught_before(connection, project)
    policy = policy_of(own.policy)
    if not isinstance(policy, Joint):
        raise ConfigError(
            "a price of labels needs the worth of a right label, which only the policy joint has",
            where="humans",
            fix="set policy: {name: joint, worth_usd: 0.3}, or remove humans",
        )
    if full is None:
        return None
    doubting = asyncio.run(_doubting(ledger, project, settings))
    models = {number: task.value for number, task in doubting.by_task.items() if doubting.worthwhile(task)}
    return Pricing(price, policy.worth_of(full), taught, seen, models)


def _full_cost(connection: Connection, project: str) -> float | None:
    """What asking every model about a task costs on average, in $; ``None`` before the first."""
    tasks = rounds.count_tasks(connection, project)
    full = sum(row.full_cost_usd for row in reports.sum_rounds(connection, project))
    return full / tasks if tasks else None


async def _doubting(ledger: Ledger, project: str, settings: Settings) -> Doubting:
    """What further votes of models would bring, by the states in the ledger."""
    writer = Writer(ledger)
    try:
        with ThreadPoolExecutor(1) as readers, ThreadPoolExecutor(1) as workers:
            states = States(ledger, writer, readers, clock=time.time)
            recounter = Recounter(ledger, writer, states, workers, settings, clock=time.time)
            return await recounter.doubting(project)
    finally:
        writer.close()
