"""Makes the quote of a job: tasks are counted as they are read, and none is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from backend.annotation.job import Job, JobQuestion
from backend.errors import TaskError
from backend.ledger import rounds
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars
from backend.quotes.asking import Asking, asking_now
from backend.quotes.human_price import label_price
from backend.quotes.job_tally import JobTally
from backend.quotes.levers import levers
from backend.quotes.pricing import model_quote, total
from backend.quotes.quote import ModelQuote, Quote, Range
from backend.quotes.shares import (
    SEED,
    PolicyShare,
    known_rounds,
    policy_name,
    policy_share,
    state_key,
    student_votes,
)
from backend.quotes.target_quote import NONE_TO_COME, TargetQuote, read_labelled, target_quote
from backend.runtime.annotation_process import AnnotationProcess
from backend.settings import Settings
from backend.settings.policies import policy_of
from camvo.policies.joint import Joint


class QuoteMaker:
    """Counts the tasks of one project.

    Args:
        process: has the models and the ledger.
        settings: the project's settings.
        project: the project's key.
        batched: the models that the job asks in providers' batches.
        tally: what was counted before.

    Attributes:
        tally: what was counted so far.
        example: a counted task with as many open questions as any; ``None`` before there is one.
    """

    def __init__(
        self,
        process: AnnotationProcess,
        settings: Settings,
        project: str,
        batched: Set[str] = frozenset(),
        tally: JobTally | None = None,
    ) -> None:
        self._process, self._settings, self._project, self._batched = process, settings, project, batched
        self._questions: Sequence[JobQuestion] = ()
        self.tally = tally or JobTally()
        self.example: Job | None = None

    def count(self, jobs: Sequence[Job]) -> None:
        """Count some tasks; they are looked up in the ledger together.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        asked = [self._asked(job) for job in jobs]
        keys = [question.key for questions in asked for question in questions]
        with self._process.ledger.read() as connection:
            decided = rounds.find_by_key(connection, keys).keys()
        for job, questions in zip(jobs, asked, strict=True):
            self.tally.listed += 1
            self.tally.unreadable += not questions
            if missing := [question for question in questions if question.key not in decided]:
                self.tally.add(self._process.pool, job, missing)
                self._note(job, missing)

    def ask_as_of(self, job: Job) -> None:
        """Take the questions from a task that was counted elsewhere."""
        self._note(job, self._asked(job))

    def _asked(self, job: Job) -> list[JobQuestion]:
        try:
            return self._process.questions.with_texts(job)
        except TaskError:
            return []

    def _note(self, job: Job, questions: Sequence[JobQuestion]) -> None:
        if len(questions) > len(self._questions):
            self._questions, self.example = questions, job

    def quote(
        self, progress: Callable[[int], object] = lambda replays: None, target: float | None = None
    ) -> Quote:
        """The quote of the tasks so far.

        Args:
            progress: called with 1 after each replay of the policy.
            target: the share of all labels that models and people are to get right together, in (0, 1);
                ``None`` if nobody wants to know.
        """
        settings, pool, tally = self._settings, self._process.pool, self.tally
        now = {model.name: asking_now(tally, pool, model, self._batched) for model in settings.models}
        models = {model.name: model_quote(tally, pool, model, now[model.name]) for model in settings.models}
        share = self._share(models, now, progress)
        everyone = total(model.usd for model in models.values())
        bill = share.range.times(everyone)
        with self._process.ledger.read() as connection:
            spent, of_job = (
                from_picodollars(accounts.balance(connection, self._project, scope).spent)
                for scope in (accounts.TOTAL, accounts.JOB)
            )
        return Quote(
            project=self._project,
            policy=policy_name(settings, self._questions),
            tasks=tally.listed,
            to_come=tally.tasks,
            unreadable=tally.unreadable,
            models={name: replace(model, asked=share.asked.get(name)) for name, model in models.items()},
            everyone=everyone,
            bill=bill,
            hours=_hours(models, share),
            evidence=share.evidence,
            levers=levers(tally, pool, settings.models, now, share.asked, bill.middle),
            spent=spent,
            spent_by_job=of_job,
            target=None if target is None else self._target(target, models, now),
            student=student_votes(settings, self._questions),
        )

    def _target(
        self, target: float, models: Mapping[str, ModelQuote], now: Mapping[str, Asking]
    ) -> TargetQuote:
        """What reaches a target, for a job with one question under the policy ``joint``."""
        settings, tally, questions = self._settings, self.tally, self._questions
        policy = policy_of(settings.policy, [question.aggregation for question in questions])
        if len(questions) > 1 or not isinstance(policy, Joint) or policy.agreement is not None:
            why = "it is found for one question about labels, under the policy joint without an agreement"
            return TargetQuote(target, None, unknown=why)
        model_of, prices = self._arms(models, now)
        ledger = self._process.ledger
        if not questions:
            return TargetQuote(target, None, unknown=NONE_TO_COME)
        known = known_rounds(ledger, questions[0], prices)
        with ledger.read() as connection:
            price = label_price(connection, self._project, settings.humans)
            labelled = read_labelled(connection, state_key(questions[0]), known, model_of)
        if price is None:
            return TargetQuote(target, None, unknown="set humans: {price: 0.12} in camvo.yaml")
        return target_quote(
            target,
            known,
            labelled,
            policy,
            tally.listed - tally.unreadable,
            tally.tasks,
            total(model.usd for model in models.values()).middle,
            price,
            np.random.default_rng(SEED),
        )

    def _arms(
        self, models: Mapping[str, ModelQuote], now: Mapping[str, Asking]
    ) -> tuple[dict[str, str], dict[str, float]]:
        """Arm → its model, and arm → the mean price of asking it about a task, $."""
        model_of = {now[model.name].arm(model): model.name for model in self._settings.models}
        tasks = max(self.tally.tasks, 1)
        return model_of, {arm: models[model].usd.middle / tasks for arm, model in model_of.items()}

    def _share(
        self,
        models: Mapping[str, ModelQuote],
        now: Mapping[str, Asking],
        progress: Callable[[int], object],
    ) -> PolicyShare:
        """The policy's share of the price of asking everyone; arms go by the names of their models."""
        model_of, prices = self._arms(models, now)
        share = policy_share(
            self._process.ledger,
            self._settings,
            self._questions,
            prices,
            model_of,
            self.tally.tasks,
            progress,
        )
        return replace(share, asked={model_of[arm]: rate for arm, rate in share.asked.items()})


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
