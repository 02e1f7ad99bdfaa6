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
from typing import Any

from sqlalchemy import Connection

from backend.annotation.annotator import Annotator
from backend.annotation.images import Images
from backend.annotation.job import Job
from backend.annotation.job_questions import JobQuestions
from backend.annotation.job_queue import JobQueue
from backend.annotation.planning import Planner
from backend.annotation.voters import Voters
from backend.errors import BadLabelConfigError
from backend.label_studio.payloads import parse_task
from backend.label_studio.prediction import Prediction
from backend.label_studio.webhooks import START_TRAINING, WebhookEvent, split_event
from backend.learning.actions import prepare_event
from backend.learning.background_fits import BackgroundFits
from backend.learning.catch_up import CatchUp
from backend.learning.examples import Examples
from backend.learning.reward_corrections import RewardCorrections
from backend.learning.scorers import Scorers
from backend.learning.states import States
from backend.learning.training import Training
from backend.ledger import Ledger, Writer
from backend.models import Pool, embedded_voters
from backend.models.caching_pool import CachingPool
from backend.models.call_ledger import CallLedger
from backend.models.embedder.embedder import Embedder
from backend.models.rates.stores import LedgerRates
from backend.questions import LabelConfig
from backend.server.loop_thread import LoopThread
from backend.server.lost_calls import settle_lost_calls
from backend.server.past_usage import recall_usage
from backend.server.served_projects import ServedProjects
from backend.server.urgent_requests import UrgentRequests
from backend.server.warm_up import warm_up
from backend.settings import Environment, Settings
from backend.telemetry import metrics

_SWITCH = 0.0005
"""Python's thread switch interval in seconds. A webhook's thread waits for one at every SQL statement."""


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
        self.ledger = Ledger(environment.database_url)
        self.embedder = embedder or Embedder(settings.embedder)
        if any(model.is_embedded for model in settings.models):
            embedded_voters.register(self.embedder)
        self._thread = LoopThread()
        self._urgent_requests = UrgentRequests(self._thread.loop)
        self._writer = Writer(self.ledger, give_way=self._urgent_requests.give_way)
        rates = LedgerRates(self._writer, now=lambda connection: clock())
        self.pool = Pool(settings.models, keys=environment.keys(settings.models), rates=rates)
        recall_usage(self.pool, self.ledger)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="ledger-reader")
        self.projects = ServedProjects(self.ledger, settings, write=self._write, clock=clock)
        self._trainings: set[Future[None]] = set()
        self._training = Training(
            [
                CatchUp(self.ledger, self._writer, settings, environment, clock),
                RewardCorrections(self.ledger, self._writer, settings, clock),
            ]
        )
        purchases = CallLedger(self._writer, clock)
        sys.setswitchinterval(_SWITCH)
        self._jobs = JobQueue(self._make_annotator(environment, purchases), settings.concurrency)
        self._thread.start(settle_lost_calls(self._writer, clock), purchases.renew_claims())
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
            planner=Planner(
                States(ledger, self._writer, readers, clock=clock), BackgroundFits(readers, clock=clock)
            ),
            voters=voters,
            scorers=Scorers(ledger, readers, clock=clock),
            clock=clock,
        )

    def predict(
        self,
        project: str,
        config: LabelConfig,
        tasks: Sequence[Any],
        *,
        wait: bool = True,
        interactive: bool = False,
    ) -> list[Prediction]:
        """Predictions for raw tasks, in the order of the tasks; ``[]`` for a task that has none yet.

        Args:
            project: Label Studio's key of the project.
            config: the parsed label config.
            tasks: the tasks as received; a malformed one gets ``[]``.
            wait: whether to wait until the deadline. If not, stored predictions are returned, and the other
                tasks are worked on in the background.
            interactive: whether the editor sent the request; it takes one prediction per task, not a list.

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
            None if (task := parse_task(raw)) is None else Job(project, *task, config, settings)
            for raw in tasks
        ]
        answers = self._thread.submit(
            self._jobs.answer_request(jobs, settings.deadline if wait else None)
        ).result()
        if not interactive:
            return answers
        return [answer[-1] if isinstance(answer, list) and answer else answer for answer in answers]

    def learn(self, event: WebhookEvent) -> None:
        """Store what a webhook says; the states of all processes catch up with it.

        START_TRAINING only starts a training in the background.
        """
        if event.action == START_TRAINING:
            future = self._thread.submit(self._training.train(event))
            self._trainings.add(future)
            future.add_done_callback(self._trainings.discard)
            return
        for part in split_event(event):
            self._write(prepare_event(part, self.settings, self.clock))

    def _write(self, function: Callable[[Connection], object]) -> None:
        """Run a function in a write transaction, ahead of the writer's other work.

        Label Studio waits for the answer, and an annotator for Label Studio. The write goes through the
        process's one writer, since another connection would wait behind each of the writer's batches.
        """
        with self._urgent_requests.answering():
            self._writer.submit(function, urgent=True).result()

    def ready(self) -> dict[str, bool]:
        """Whether each part is ready for work."""
        return {
            "ledger": self.ledger.is_ready(),
            "embedder": self.embedder.loaded,
            "keys": not self.pool.missing_keys(),
        }

    def close(self, patience: float = 10.0) -> None:
        """Let jobs and trainings finish for ``patience`` seconds each, then stop; paid answers are stored."""
        self._thread.submit(self._jobs.drain(patience)).result()
        wait_for(list(self._trainings), patience)
        self._writer.close()
        self._thread.stop()
        self._warm_up.join(patience)  # torch aborts a process that ends in the middle of its import
        self._readers.shutdown()
        self.embedder.close()
        self.ledger.close()
