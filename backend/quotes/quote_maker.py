"""Makes the quote of a job: tasks are counted as they are read, and none is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from backend.annotation.job import Job, JobQuestion
from backend.ledger import Ledger
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars
from backend.models import Pool
from backend.quotes.pricing import PACK, model_quote, total, with_levers
from backend.quotes.quote import Lever, ModelQuote, Quote, Range
from backend.quotes.shares import PolicyShare, policy_name, policy_share
from backend.quotes.token_tally import TokenTally
from backend.settings import Settings


class QuoteMaker:
    """Counts the tasks of one project.

    Args:
        pool: the models.
        ledger: holds what is known of the project.
        settings: the project's settings.
        project: the project's key.
    """

    def __init__(self, pool: Pool, ledger: Ledger, settings: Settings, project: str) -> None:
        self._pool, self._ledger, self._settings, self._project = pool, ledger, settings, project
        self._tally = TokenTally(pool)
        self._questions: Sequence[JobQuestion] = ()
        self._tasks = self._unreadable = 0

    def add(self, job: Job, questions: Sequence[JobQuestion], *, complete: bool) -> None:
        """Count one task.

        Args:
            job: the task.
            questions: the questions that models will be asked about it.
            complete: whether it has its labels.
        """
        self._tasks += 1
        if complete:
            return
        if not questions:
            self._unreadable += 1
            return
        self._tally.add(job, questions)
        if len(questions) > len(self._questions):
            self._questions = questions

    def quote(self, progress: Callable[[int], object] = lambda replays: None) -> Quote:
        """The quote of the tasks so far.

        Args:
            progress: called with 1 after each replay of the policy.
        """
        settings, pool, tally = self._settings, self._pool, self._tally
        models = {model.name: model_quote(tally, pool, model) for model in settings.models}
        everyone = total(model.usd for model in models.values())
        prices = {name: model.usd.middle / max(tally.tasks, 1) for name, model in models.items()}
        share = policy_share(self._ledger, settings, self._questions, prices, tally.tasks, progress)
        bill = share.range.times(everyone)
        with self._ledger.read() as connection:
            spent = accounts.balance(connection, self._project, accounts.TOTAL).spent
        return Quote(
            project=self._project,
            policy=policy_name(settings, self._questions),
            tasks=self._tasks,
            to_come=tally.tasks,
            unreadable=self._unreadable,
            models={name: replace(model, asked=share.asked.get(name)) for name, model in models.items()},
            everyone=everyone,
            bill=bill,
            hours=_hours(models, share),
            evidence=share.evidence,
            levers=self._levers(everyone.middle, bill.middle),
            spent=from_picodollars(spent),
        )

    def _levers(self, everyone: float, bill: float) -> tuple[Lever, ...]:
        levers = []
        for batch, pack in [(True, False), (False, True), (True, True)]:
            usd = sum(
                with_levers(self._tally, self._pool, model, batch=batch, pack=pack)
                for model in self._settings.models
            )
            name = " and ".join([*["batch"] * batch, *[f"pack {PACK}"] * pack])
            levers.append(Lever(name, usd, bill * usd / everyone if everyone else 0.0))
        return tuple(levers)


def _hours(models: Mapping[str, ModelQuote], share: PolicyShare) -> Range | None:
    """The hours of the slowest model; those with limits work side by side."""
    low, likely, high = [], [], []
    for name, model in models.items():
        if model.hours is None:
            continue
        asked = share.asked.get(name)
        if asked is None:
            low.append(model.hours * share.range.low)
            high.append(model.hours)
            continue
        middle = share.range.middle or 1.0
        low.append(model.hours * min(asked * share.range.low / middle, 1.0))
        likely.append(model.hours * asked)
        high.append(model.hours * min(asked * share.range.high / middle, 1.0))
    if not low:
        return None
    return Range(max(low), max(high), max(likely) if likely else None)
