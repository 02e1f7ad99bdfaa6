"""One worker process: an event loop in its own thread, and everything that runs on it.

A Flask view submits work to the loop and waits until its deadline at most. Unfinished work goes on, within a
bound, so that a repeated request finds the answers. A runtime is created after the fork: neither an event
loop nor torch survives one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import Any

from sqlalchemy import Connection

from backend.annotation.annotator import Annotator
from backend.annotation.images import Images
from backend.annotation.job import Job
from backend.annotation.job_questions import JobQuestions
from backend.annotation.planning import Planner
from backend.annotation.queue.answer import Answer
from backend.annotation.queue.job_queue import JobQueue
from backend.annotation.voters import Voters
from backend.errors import BadLabelConfigError, LedgerError
from backend.label_studio.payloads import parse_task
from backend.label_studio.webhooks import START_TRAINING, WebhookEvent
from backend.learning.actions import parts, prepare_event
from backend.learning.annotators.reliability_fits import ReliabilityFits
from backend.learning.annotators.reliability_watch import ReliabilityWatch
from backend.learning.background_fits import BackgroundFits
from backend.learning.catch_up import CatchUp
from backend.learning.examples import Examples
from backend.learning.reward_corrections import RewardCorrections
from backend.learning.scorers import Scorers
from backend.learning.states import States
from backend.learning.training import Training
from backend.ledger import Ledger, Writer
from backend.ledger.database.readiness import try_write
from backend.ledger.recounts import rows as recounts
from backend.ledger.recounts.countings import Counting
from backend.models import Pool, embedded_voters
from backend.models.caching_pool import CachingPool
from backend.models.call_ledger import CallLedger
from backend.models.embedder.embedder import Embedder
from backend.models.rates.stores import LedgerRates
from backend.questions import LabelConfig
from backend.recounting.automatic import AutomaticRecounts
from backend.recounting.delivery import Delivery
from backend.recounting.recounter import Recounter
from backend.recounting.training_step import RecountStep
from backend.server.deletions import Deletions
from backend.server.loop_thread import LoopThread
from backend.server.lost_calls import settle_lost_calls
from backend.server.past_usage import recall_usage
from backend.server.served_projects import ServedProjects
from backend.server.status.alarms.watch import AlertWatch
from backend.server.urgent_requests import UrgentRequests
from backend.server.warm_up import warm_up
from backend.settings import Environment, Settings
from backend.telemetry import metrics

_PATIENCE = 10.0
"""Seconds after which a webhook is refused because its write was not committed."""

_READY_PATIENCE = 2.0
"""Seconds that the write of ``/ready`` may take."""

_SWITCH = 0.0005
"""Python's thread switch interval in seconds. A webhook's thread waits for one at every SQL statement."""

_SETTLING = 1.0
"""The fewest seconds that a stopping process has to store the answers that have arrived."""

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
        self.ledger = Ledger(environment.database_url, clock=clock)
        self.embedder = embedder or Embedder(settings.embedder)
        if any(model.is_embedded for model in settings.models):
            embedded_voters.register(self.embedder)
        self._thread = LoopThread()
        self._urgent_requests = UrgentRequests(self._thread.loop)
        self._writer = Writer(self.ledger, give_way=self._urgent_requests.give_way)
        rates = LedgerRates(self._writer)
        self.pool = Pool(settings.models, keys=environment.keys(settings.models), rates=rates)
        recall_usage(self.pool, self.ledger)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="ledger-reader")
        self._states = States(self.ledger, self._writer, self._readers, clock=clock)
        self.projects = ServedProjects(self.ledger, settings, write=self._write, clock=clock)
        self._trainings: set[Future[None]] = set()
        self._reliability_fits = ReliabilityFits(self.ledger, self._writer, self._readers, settings, clock)
        self._reliabilities = ReliabilityWatch(self._reliability_fits)
        purchases = CallLedger(self._writer, clock)
        self._settlements = purchases.settlements
        sys.setswitchinterval(_SWITCH)
        annotator = self._make_annotator(environment, purchases)
        self._jobs = JobQueue(annotator, settings.concurrency)
        self._deletions = Deletions(self._writer, settings, clock)
        self.alert_watch = AlertWatch(self.ledger, self._writer, settings, environment)
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="recounter")
        self.recounter = Recounter(
            self.ledger, self._writer, self._states, self._counting, settings, clock=clock
        )
        self.recounts = self._make_recounts(environment, annotator)
        self._training = self._make_training(environment)
        self._thread.start(
            settle_lost_calls(self._writer),
            purchases.renew_claims(),
            self._deletions.run(),
            self.alert_watch.run(),
            self.recounts.run(),
            self._reliabilities.run(),
        )
        metrics.started_at.set(clock())
        self._warm_up = threading.Thread(
            target=warm_up, args=(self.embedder, self.pool), name="camvo-warm-up", daemon=True
        )
        self._warm_up.start()

    def _make_annotator(self, environment: Environment, purchases: CallLedger) -> Annotator:
        ledger, readers, clock = self.ledger, self._readers, self.clock
        queries = CachingPool(self.pool, purchases, retries=self.settings.retries, clock=clock)
        voters = Voters(queries, self.pool)
        images = Images(environment.label_studio_url, environment.label_studio_api_key)
        return Annotator(
            ledger=ledger,
            writer=self._writer,
            readers=readers,
            embedder=self.embedder,
            questions=JobQuestions(self.embedder, images, voters),
            examples=Examples(ledger, readers, clock=clock),
            planner=Planner(self._states, BackgroundFits(readers, clock=clock)),
            voters=voters,
            scorers=Scorers(ledger, readers, clock=clock),
            clock=clock,
        )

    def _make_recounts(self, environment: Environment, annotator: Annotator) -> AutomaticRecounts:
        delivery = Delivery(
            ledger=self.ledger,
            writer=self._writer,
            annotator=annotator,
            readers=self._readers,
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
    ) -> Future[list[Answer]]:
        """Start to predict raw tasks; the result comes at the deadline at the latest.

        Args:
            project: Label Studio's key of the project.
            config: the parsed label config.
            tasks: the tasks as received; a malformed one gets ``[]``.
            again: whether models make another attempt after their last one.
            stored_only: whether no model is asked, and a task without a round gets ``[]``.

        Returns:
            For each task, in their order: a prediction, or why there is none (yet).

        Raises:
            BadLabelConfigError: the config has no control that can be voted on.
            ConfigError: the project's stored ``extra_params`` no longer fit the settings.
        """
        if not config.questions:
            skipped = "; ".join(f"{control.control}: {control.reason}" for control in config.skipped)
            raise BadLabelConfigError(
                f"none of its controls can be voted on ({skipped})",
                where="label_config",
                fix="add a control that can be (docs/tags.md)",
            )
        settings = self.projects.settings(project)
        jobs = [
            None
            if (task := parse_task(raw)) is None
            else Job(project, *task, config, settings, again, stored_only)
            for raw in tasks
        ]
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
        return not self._settlements.waiting

    def ready(self) -> dict[str, bool]:
        """Whether each part is ready for work; the ledger is if a write succeeds in time."""
        return {
            "ledger": self._can_write(),
            "embedder": self.embedder.loaded,
            "keys": not self.pool.missing_keys(),
        }

    def stop_asking(self) -> None:
        """Ask no model any more, because the process stops; a signal handler may call this.

        Calls in flight go on. A task that needs another one gets no prediction, also if the call waits for
        its rate already.
        """
        self.pool.gate.shut()
        self._thread.call_soon(self.pool.refuse_waiting)

    def close(self, patience: float = 10.0) -> None:
        """Let jobs and trainings finish for ``patience`` seconds, then stop; paid answers are stored."""
        until = time.monotonic() + patience
        self.recounter.stop()
        self._thread.submit(self._jobs.drain(patience)).result()
        self._thread.submit(self._settlements.finish(max(until - time.monotonic(), _SETTLING))).result()
        wait_for(list(self._trainings), min(max(until - time.monotonic(), 0.0), _TRAINING))
        self._counting.shutdown()
        self._writer.close()
        self._thread.stop()
        self._warm_up.join(10.0)  # torch aborts a process that ends in the middle of its import
        self._readers.shutdown()
        self.embedder.close()
        self.ledger.close()
