"""One worker process: an event loop in its own thread, and everything that runs on it.

A Flask view submits work to the loop and waits until its deadline at most. Unfinished work goes on, within a
bound, so that a repeated request finds the answers. A runtime is created after the fork: neither an event
loop nor torch survives one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import Any

from sqlalchemy import Connection

from backend.annotation.job import Job
from backend.annotation.queue.answer import Answer
from backend.annotation.queue.job_queue import JobQueue
from backend.errors import LedgerError
from backend.label_studio.payloads import JobTerms, parse_task
from backend.label_studio.webhooks import START_TRAINING, WebhookEvent
from backend.learning.actions import parts, prepare_event
from backend.learning.annotators.reliability_fits import ReliabilityFits
from backend.learning.annotators.reliability_watch import ReliabilityWatch
from backend.learning.catch_up import CatchUp
from backend.learning.reward_corrections import RewardCorrections
from backend.learning.training import Training
from backend.ledger.database.readiness import try_write
from backend.ledger.money import accounts
from backend.ledger.money.accounts import Purse
from backend.ledger.money.picodollars import from_picodollars
from backend.ledger.recounts import rows as recounts
from backend.ledger.recounts.countings import Counting
from backend.models.embedder.embedder import Embedder
from backend.questions import LabelConfig
from backend.questions.label_config import require_questions
from backend.recounting.automatic import AutomaticRecounts
from backend.recounting.delivery import Delivery
from backend.recounting.further.background import Completing
from backend.recounting.further.doubts import Doubts
from backend.recounting.further.portion import Portion, ask_portion
from backend.recounting.recounter import Recounter
from backend.recounting.training_step import RecountStep
from backend.runtime.annotation_process import AnnotationProcess
from backend.runtime.loop_thread import LoopThread
from backend.server.deletions import Deletions
from backend.server.lasting_work import LastingWork
from backend.server.quoting import Quotes
from backend.server.served_projects import ServedProjects
from backend.server.status.alarms.watch import AlertWatch
from backend.server.urgent_requests import UrgentRequests
from backend.settings import Environment, Settings
from backend.telemetry import metrics

_PATIENCE = 10.0
"""Seconds after which a webhook is refused because its write was not committed."""

_READY_PATIENCE = 2.0
"""Seconds that the write of ``/ready`` may take."""

_SWITCH = 0.0005
"""Python's thread switch interval in seconds. A webhook's thread waits for one at every SQL statement."""

_TRAINING = 10.0
"""Seconds that a stopping process waits for trainings; the next START_TRAINING catches up."""


class Runtime:
    """Everything that one worker process needs to annotate tasks and to learn.

    Args:
        settings: the validated settings.
        environment: the ledger's address and the secrets.
        clock: returns unix seconds; tests may replace it.
        embedder: an embedder to use instead of a new one; closed with the runtime.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        *,
        clock: Callable[[], float] = time.time,
        embedder: Embedder | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._thread = LoopThread()
        self._urgent_requests = UrgentRequests(self._thread.loop)
        self._process = AnnotationProcess(
            settings,
            environment,
            clock=clock,
            embedder=embedder,
            thread=self._thread,
            give_way=self._urgent_requests.give_way,
        )
        self.ledger, self.embedder, self.pool = (
            self._process.ledger,
            self._process.embedder,
            self._process.pool,
        )
        self._writer, readers = self._process.writer, self._process.readers
        self.projects = ServedProjects(self.ledger, settings, write=self._write, clock=clock)
        self._trainings: set[Future[None]] = set()
        self._doubting = LastingWork[Doubts](settings.deadline)
        self._reliability_fits = ReliabilityFits(self.ledger, self._writer, readers, settings, clock)
        self._reliabilities = ReliabilityWatch(self._reliability_fits)
        sys.setswitchinterval(_SWITCH)
        self._jobs = JobQueue(self._process.annotator, settings.concurrency)
        self._deletions = Deletions(self._writer, settings, clock)
        self.alert_watch = AlertWatch(self.ledger, self._writer, settings, environment)
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="recounter")
        self.recounter = Recounter(
            self.ledger, self._writer, self._process.states, self._counting, settings, clock=clock
        )
        self.quotes = Quotes(self._process, self.projects.settings, self._counting, settings.deadline)
        self.recounts = self._make_recounts(environment)
        self.completing = Completing(
            ledger=self.ledger,
            writer=self._writer,
            further=self._process.further,
            readers=readers,
            settings=settings,
            environment=environment,
        )
        self._training = self._make_training(environment)
        self._process.start(
            self._deletions.run(),
            self.alert_watch.run(),
            self.recounts.run(),
            self._reliabilities.run(),
            self.completing.run(),
        )
        metrics.started_at.set(clock())

    def _make_recounts(self, environment: Environment) -> AutomaticRecounts:
        delivery = Delivery(
            ledger=self.ledger,
            writer=self._writer,
            annotator=self._process.annotator,
            readers=self._process.readers,
            settings=self.settings,
            environment=environment,
        )
        return AutomaticRecounts(self.ledger, self._writer, self.recounter, delivery, self.settings)

    def _make_training(self, environment: Environment) -> Training:
        ledger, writer, settings, clock = self.ledger, self._writer, self.settings, self.clock
        return Training(
            [
                CatchUp(ledger, writer, settings, environment, clock),
                RewardCorrections(ledger, writer, settings, clock),
                self._reliability_fits,
                RecountStep(self.recounter, self.recounts),
            ]
        )

    def predict(
        self,
        project: str,
        config: LabelConfig,
        tasks: Sequence[Any],
        *,
        again: bool = False,
        stored_only: bool = False,
        terms: JobTerms | None = None,
    ) -> Future[list[Answer]]:
        """Start to predict raw tasks; the result comes at the deadline at the latest.

        Args:
            project: Label Studio's key of the project.
            config: the parsed label config.
            tasks: the tasks as received; a malformed one gets ``[]``.
            again: whether models make another attempt after their last one.
            stored_only: whether no model is asked, and a task without a round gets ``[]``.
            terms: what the job that the tasks belong to may cost; ``None`` if they belong to none.

        Returns:
            For each task, in their order: a prediction, or why there is none (yet).

        Raises:
            BadLabelConfigError: the config has no control that can be voted on.
            ConfigError: the project's stored ``extra_params`` no longer fit the settings.
        """
        require_questions(config)
        settings = self.projects.settings(project)
        job = partial(Job, config=config, settings=settings, again=again, stored_only=stored_only)
        if terms is not None:
            job = partial(job, purse=terms.purse, aim_usd=terms.aim_usd, everyone=terms.everyone)
        jobs = [None if (task := parse_task(raw)) is None else job(project, *task) for raw in tasks]
        return self._thread.submit(self._jobs.answer_request(jobs, settings.deadline))

    def learn(self, event: WebhookEvent) -> None:
        """Store what a webhook says; the states of all processes catch up with it.

        START_TRAINING only starts a training in the background.
        """
        if event.action == START_TRAINING:
            future = self._thread.submit(self._training.train(event))
            self._trainings.add(future)
            future.add_done_callback(self._trainings.discard)
            return
        for part in parts(event):
            self._write(prepare_event(part, self.settings, self.clock))
        if event.task_ids:
            self._thread.call_soon(self._deletions.wake)
        if event.annotations or event.annotation_ids:
            self._thread.call_soon(partial(self._reliabilities.wake, event.project_key))

    def recount(self, project: str) -> Counting | None:
        """Count a project's kept votes again, or wait for the counting under way; nothing is delivered.

        Returns:
            The counting; ``None`` if nothing changed.

        Raises:
            TimeoutError: it was not done by the deadline; it goes on.
            LedgerError: the ledger failed.
        """
        future = self._thread.submit(self.recounter.recount(project, "command"))
        return future.result(self.settings.deadline)

    def doubts(self, project: str, usd: float, most: int) -> tuple[Doubts, float]:
        """Find the tasks on which further votes are worth most; nothing is asked.

        Args:
            project: the project's key.
            usd: the most that further votes may cost in all, also in earlier runs, in $.
            most: the most tasks.

        Returns:
            The tasks, and what was spent on further votes so far, in $.

        Raises:
            TimeoutError: it was not done by the deadline.
            LedgerError: the ledger failed.
        """
        with self.ledger.read() as connection:
            spent = from_picodollars(accounts.balance(connection, project, "further").spent)
        asked = project, max(usd - spent, 0.0), most
        return self._doubting.result(asked, lambda: self._thread.submit(self.recounter.doubts(*asked))), spent

    def ask_more(
        self, project: str, config: LabelConfig, tasks: Sequence[Any], *, usd: float, worth_usd: float
    ) -> Portion:
        """Ask models that decided tasks left out, while their policy finds a vote worth asking for.

        Args:
            project: Label Studio's key of the project.
            config: the parsed label config.
            tasks: the tasks as received; malformed ones are passed over.
            usd: the most that further votes may cost in all, also in earlier runs, in $.
            worth_usd: what one more right label is worth, in $.

        Raises:
            BadLabelConfigError: the config has no control that can be voted on.
            ConfigError: the project's stored ``extra_params`` no longer fit the settings.
            LedgerError: the ledger failed.
        """
        require_questions(config)
        settings, purse = self.projects.settings(project), Purse("further", usd)
        jobs = [
            Job(project, *task, config, settings, purse=purse)
            for raw in tasks
            if (task := parse_task(raw)) is not None
        ]
        further = self._process.further
        asking = ask_portion(
            jobs,
            lambda job: further.ask_in_doubt(job, worth_usd),
            at_once=settings.concurrency,
            deadline=settings.deadline / 2.0,
        )
        return self._thread.submit(asking).result()

    def delivered(self, project: str, tasks: Sequence[int], through: int) -> None:
        """Remember that Label Studio shows these tasks' labels by the countings up to ``through``."""
        self._write(partial(recounts.set_delivered, project=project, tasks=tasks, through=through))

    def _write(self, function: Callable[[Connection], object]) -> None:
        """Run a function in a write transaction, ahead of the writer's other work, in :data:`_PATIENCE`.

        Label Studio waits for the answer, and an annotator for Label Studio. The write goes through the
        process's one writer, since another connection would wait behind each of the writer's batches.
        """
        self._write_within(_PATIENCE, function)

    def _write_within(self, seconds: float, function: Callable[[Connection], object]) -> None:
        with self._urgent_requests.answering():
            future = self._writer.submit(function, urgent=True)
            try:
                future.result(seconds)
            except TimeoutError:
                future.cancel()
                raise LedgerError(
                    f"the ledger was not written within {seconds:g} s",
                    where=self.ledger.place,
                    fix="look for ledger_down in the log, and at the database's own log",
                    temporary=True,
                ) from None

    def _can_write(self) -> bool:
        try:
            self._write_within(_READY_PATIENCE, try_write)
        except LedgerError:
            return False
        return not self._process.settlements.waiting

    def ready(self) -> dict[str, bool]:
        """Whether each part is ready for work; the ledger is if a write succeeds in time.

        ``keys`` is false if any model's key is missing.
        """
        return {
            "ledger": self._can_write(),
            "embedder": self.embedder.loaded,
            "keys": not self.pool.missing_keys(),
        }

    def stop_asking(self) -> None:
        """Ask no model any more, because the process stops; a signal handler may call this."""
        self._process.stop_asking()

    def close(self, patience: float = 10.0) -> None:
        """Let jobs and trainings finish for ``patience`` seconds, then stop; paid answers are stored."""
        until = time.monotonic() + patience
        self.recounter.stop()
        self._thread.submit(self._jobs.drain(patience)).result()
        self._process.store_paid_answers(until)
        wait_for(list(self._trainings), min(max(until - time.monotonic(), 0.0), _TRAINING))
        self._counting.shutdown()
        self._process.close()
