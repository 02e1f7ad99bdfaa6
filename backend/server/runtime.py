"""One process's machinery: an event loop in a thread of its own, and everything that lives on it.

A view hands its work over and waits no longer than its deadline; work under way goes on past it, within a
bound, so that asking again finds the answers there. Started after the fork: neither a loop nor torch
survives one.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any

import structlog
from sqlalchemy import Connection

from backend.annotation.annotator import Annotator
from backend.annotation.images import Images
from backend.annotation.jobs import Jobs
from backend.annotation.recording import Job
from backend.annotation.voters import Voters
from backend.errors import BadLabelConfigError
from backend.label_studio import webhooks
from backend.label_studio.payloads import task_of
from backend.label_studio.prediction import Prediction
from backend.label_studio.webhooks import START_TRAINING, WebhookEvent
from backend.learning import feedback
from backend.learning.catch_up import CatchUp
from backend.learning.examples import Examples
from backend.learning.scores import Scores
from backend.learning.states import States
from backend.learning.studies import Studies
from backend.learning.training import Training
from backend.ledger import Ledger, Writer, projects
from backend.models import Pool, embedded_voters
from backend.models.embedder.embedder import Embedder
from backend.models.heavy_imports import spare_the_libraries
from backend.models.purchases import Purchases
from backend.models.queries import Queries
from backend.questions import LabelConfig
from backend.server import upkeep
from backend.server.right_of_way import RightOfWay
from backend.settings import Environment, Settings
from backend.settings.policies import warn_of_implied_policy
from backend.telemetry import metrics
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)

_SWITCH = 0.0005
"""Seconds between turns of Python's lock. A webhook waits for one at every statement of its transaction."""


class Runtime:
    """Everything that one worker process needs to annotate tasks and to learn.

    Args:
        settings: the validated settings.
        environment: where the ledger is and what the secrets are.
        clock: unix seconds; a test may bring its own.
        embedder: the embedder of the settings, if there is one already; closed with the runtime.
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
        self.pool = Pool(
            settings.models, keys=environment.keys(settings.models), processes=environment.workers
        )
        upkeep.recall_usage(self.pool, self.ledger)
        self._loop = asyncio.new_event_loop()
        self._right_of_way = RightOfWay(self._loop)
        self._writer = Writer(self.ledger, give_way=self._right_of_way.give)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="ledger-reader")
        self._overrides: dict[str, Settings] = {}
        self._trainings: set[Future[None]] = set()
        catch_up = CatchUp(self.ledger, self._writer, settings, environment, self.clock)
        self._training = Training([catch_up, self._review])
        self._purchases = Purchases(self._writer, self.clock)
        self._queries = Queries(self.pool, self._purchases, retries=settings.retries, clock=self.clock)
        sys.setswitchinterval(_SWITCH)
        self._jobs = Jobs(self._make_annotator(environment), settings.concurrency)
        self._thread = threading.Thread(target=self._run, name="camvo-loop", daemon=True)
        self._thread.start()
        metrics.started_at.set(self.clock())
        self._warm_up = threading.Thread(target=self._load, name="camvo-warm-up", daemon=True)
        self._warm_up.start()

    def _make_annotator(self, environment: Environment) -> Annotator:
        return Annotator(
            ledger=self.ledger,
            writer=self._writer,
            readers=self._readers,
            states=States(self.ledger, self._writer, self._readers, clock=self.clock),
            voters=Voters(self._queries, self.pool, Examples(self.ledger, self._readers, clock=self.clock)),
            embedder=self.embedder,
            images=Images(environment.label_studio_url, environment.label_studio_api_key),
            scores=Scores(self.ledger, self._readers, clock=self.clock),
            studies=Studies(self._readers, clock=self.clock),
            clock=self.clock,
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
        """Predictions for raw tasks, in their order and number; ``[]`` for one that has none (yet).

        Args:
            project: Label Studio's key of the project.
            config: the parsed label config.
            tasks: the tasks as they came; one that cannot be read gets ``[]``.
            wait: whether to wait until the deadline; otherwise the work only goes on in the background.
            interactive: whether the editor asks, which takes one prediction for a task, never a list.

        Raises:
            BadLabelConfigError: nothing in the config can be voted on.
            ConfigError: the project's stored ``extra_params`` do not fit the settings any more.
        """
        if not config.questions:
            skipped = "; ".join(f"{one.control}: {one.reason}" for one in config.skipped)
            raise BadLabelConfigError(
                f"no control of it can be voted on ({skipped})",
                where="label_config",
                fix="add a control that can be (docs/tags.md)",
            )
        settings = self.project_settings(project)
        jobs = [
            None if (read := task_of(raw)) is None else Job(project, *read, config, settings) for raw in tasks
        ]
        deadline = settings.deadline if wait else None
        future = asyncio.run_coroutine_threadsafe(self._jobs.run(jobs, deadline), self._loop)
        answers = future.result()
        if not interactive:
            return answers
        return [answer[-1] if isinstance(answer, list) and answer else answer for answer in answers]

    def project_settings(self, project: str) -> Settings:
        """The settings with the overrides that Label Studio sent in the project's ``extra_params``."""
        with self.ledger.read() as connection:
            stored = projects.get(connection, project)
        if stored is None or stored.extra_params is None:
            return self.settings
        # One object for equal overrides, so that identical jobs are recognised by their settings.
        key = json.dumps(stored.extra_params, sort_keys=True)
        if key not in self._overrides:
            self._overrides[key] = self.settings.for_project(stored.extra_params)
            warn_of_implied_policy(self._overrides[key].policy, project)
        return self._overrides[key]

    def remember(self, project: str, extra_params: Any, label_config: str | None = None) -> None:
        """Keep a project's ``extra_params``, which Label Studio sends with ``/setup`` only, and its config.

        Raises:
            ConfigError: they do not fit the settings; the stored ones stay.
        """
        self.settings.for_project(extra_params)
        with self.ledger.read() as connection:
            stored = projects.get(connection, project)
        config = label_config or (stored.label_config if stored else None)
        if stored is not None and (stored.extra_params, stored.label_config) == (extra_params, config):
            return
        self._write(
            lambda connection: projects.remember(
                connection, project, extra_params=extra_params, label_config=config, now=self.clock()
            )
        )

    def learn(self, event: WebhookEvent) -> None:
        """Store a webhook durably; every process's state catches up with it."""
        if event.action == START_TRAINING:
            future = asyncio.run_coroutine_threadsafe(self._training.run(event), self._loop)
            self._trainings.add(future)
            future.add_done_callback(self._trainings.discard)
            return
        for part in webhooks.parts(event):
            self._write(functools.partial(self._apply, part))

    def _apply(self, event: WebhookEvent, connection: Connection) -> None:
        feedback.apply(connection, event, self.settings, self.clock())

    def _write(self, function: Callable[[Connection], None]) -> None:
        """Write through the one writer: a thread of its own would wait behind every batch of it.

        Label Studio waits for the answer, and an annotator for Label Studio, so it goes first, and the event
        loop stands still for it: it would take Python's lock from the writer at every statement.
        """
        with self._right_of_way.taken():
            self._writer.submit(function, urgent=True).result()

    def ready(self) -> dict[str, bool]:
        """Whether each part can do its work."""
        return {
            "ledger": self.ledger.answers(),
            "embedder": self.embedder.loaded,
            "prices": True,  # a model without a price is refused before a runtime exists
            "keys": not self.pool.missing_keys(),
        }

    def close(self, patience: float = 10.0) -> None:
        """Let what is under way finish for ``patience`` seconds, then stop; what was paid for is stored."""
        asyncio.run_coroutine_threadsafe(self._jobs.drain(patience), self._loop).result()
        wait_for(list(self._trainings), patience)
        self._writer.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._warm_up.join(patience)  # torch aborts a process that ends in the middle of its import
        self._readers.shutdown()
        self.embedder.close()
        self.ledger.close()

    async def _review(self, event: WebhookEvent) -> None:
        await upkeep.review(self.ledger, self._writer, event.project_key, self.settings, self.clock)

    def _load(self) -> None:
        try:
            self.embedder.load()
            self.pool.count(self.pool.names[0], [{"role": "user", "content": "warm up"}])
        except CamvoError as error:
            _log.error("embedder_unavailable", code=error.code, reason=str(error))
        spare_the_libraries()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._upkeep = [
            self._loop.create_task(upkeep.give_up_lost_calls(self._writer, self.clock)),
            self._loop.create_task(self._purchases.keep_claims()),
        ]
        self._loop.run_forever()
        rest = asyncio.all_tasks(self._loop)
        for task in rest:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self._loop.close()
