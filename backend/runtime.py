"""One process's machinery: an event loop in a thread of its own, and everything that lives on it.

A view hands its work over and waits no longer than its deadline; work under way goes on past it, within a
bound, so that asking again finds the answers there. Started after the fork: neither a loop nor torch
survives one.
"""

from __future__ import annotations

import asyncio
import functools
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from sqlalchemy import Connection

from backend import embedded_voters, feedback, metrics
from backend.annotator import Annotator, Job
from backend.embedding import Embedder
from backend.labels import LabelConfig
from backend.ledger import Ledger, Writer, money, projects
from backend.llms import Pool
from backend.queries import Queries
from backend.settings import Environment, Settings
from backend.states import States
from backend.webhooks import START_TRAINING, WebhookEvent
from backend.wire import task_of
from camvo.errors import BadLabelConfigError, CamvoError, TaskError

BACKGROUND = 1000
"""Tasks that may go on, or wait their turn, after their request was answered; more are dropped."""

_EXPIRY = 60.0
_REVIEWED_TOGETHER = 20

_log = structlog.get_logger(__name__)

Prediction = dict[str, Any] | list[Any]


class Runtime:
    """Everything that one worker process needs to annotate tasks and to learn.

    Args:
        settings: the validated settings.
        environment: where the ledger is and what the secrets are.
        clock: unix seconds; a test may bring its own.
    """

    def __init__(
        self, settings: Settings, environment: Environment, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.ledger = Ledger(environment.database_url)
        self.embedder = Embedder(settings.embedder)
        if any(model.model.startswith("embedded/") for model in settings.models):
            embedded_voters.register(self.embedder)
        self.pool = Pool(
            settings.models, keys=environment.keys(settings.models), processes=environment.workers
        )
        self._seed_pool()
        self._writer = Writer(self.ledger)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="ledger-reader")
        self._loop = asyncio.new_event_loop()
        self._pending: dict[tuple[Any, ...], asyncio.Task[dict[str, Any] | None]] = {}
        self._background: set[asyncio.Task[dict[str, Any] | None]] = set()
        self._overrides: dict[str, Settings] = {}
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._annotator = self._make_annotator()
        self._thread = threading.Thread(target=self._run, name="camvo-loop", daemon=True)
        self._thread.start()
        self._warm_up = threading.Thread(target=self._load, name="camvo-warm-up", daemon=True)
        self._warm_up.start()

    def _make_annotator(self) -> Annotator:
        queries = Queries(
            self.pool,
            self.ledger,
            self._writer,
            retries=self.settings.retries,
            clock=self.clock,
        )
        return Annotator(
            ledger=self.ledger,
            writer=self._writer,
            readers=self._readers,
            states=States(self.ledger, self._writer, self._readers, clock=self.clock),
            queries=queries,
            pool=self.pool,
            embedder=self.embedder,
            clock=self.clock,
        )

    def predict(
        self, project: str, config: LabelConfig, tasks: Sequence[Any], *, wait: bool = True
    ) -> list[Prediction]:
        """Predictions for raw tasks, in their order and number; ``[]`` for one that has none (yet).

        Args:
            project: Label Studio's key of the project.
            config: the parsed label config.
            tasks: the tasks as they came; one that cannot be read gets ``[]``.
            wait: whether to wait until the deadline; otherwise the work only goes on in the background.

        Raises:
            BadLabelConfigError: nothing in the config can be voted on.
            ConfigError: the project's stored ``extra_params`` do not fit the settings any more.
        """
        if not config.questions:
            skipped = "; ".join(f"{one.control}: {one.reason}" for one in config.skipped)
            raise BadLabelConfigError(
                f"no control of it can be voted on ({skipped})",
                where="label_config",
                fix="add single Choices",
            )
        settings = self.project_settings(project)
        jobs = [
            None if (read := task_of(raw)) is None else Job(project, *read, config, settings) for raw in tasks
        ]
        deadline = settings.deadline if wait else 0.0
        future = asyncio.run_coroutine_threadsafe(self._predict(jobs, deadline), self._loop)
        return future.result()

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
        return self._overrides[key]

    def remember(self, project: str, extra_params: Any) -> None:
        """Keep a project's ``extra_params``, which Label Studio sends with ``/setup`` only.

        Raises:
            ConfigError: they do not fit the settings; the stored ones stay.
        """
        self.settings.for_project(extra_params)
        with self.ledger.read() as connection:
            stored = projects.get(connection, project)
        if stored is not None and stored.extra_params == extra_params:
            return
        with self.ledger.write() as connection:
            projects.ensure(connection, project, self.clock())
            projects.remember(connection, project, extra_params=extra_params, now=self.clock())

    def learn(self, event: WebhookEvent) -> None:
        """Store a webhook durably, in the caller's thread; every process's state catches up with it."""
        if event.action == START_TRAINING:
            asyncio.run_coroutine_threadsafe(self._review(event.project_key), self._loop)
            return
        with self.ledger.write() as connection:
            feedback.apply(connection, event, self.settings, self.clock())

    def ready(self) -> dict[str, bool]:
        """Whether each part can do its work."""
        return {
            "ledger": self.ledger.answers(),
            "embedder": self.embedder.loaded,
            "prices": True,  # a model without a price is refused before a runtime exists
            "keys": not self.pool.missing_keys(),
        }

    def close(self, patience: float = 10.0) -> None:
        """Let tasks under way finish for ``patience`` seconds, then stop; what was paid for is stored."""
        asyncio.run_coroutine_threadsafe(self._drain(patience), self._loop).result()
        self._writer.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._readers.shutdown()
        self.embedder.close()
        self.ledger.close()

    async def _predict(self, jobs: Sequence[Job | None], deadline: float) -> list[Prediction]:
        tasks = [None if job is None else self._start(job) for job in jobs]
        waiting = [task for task in tasks if task is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=deadline)
        answers = [self._answer(job, task) for job, task in zip(jobs, tasks, strict=True)]
        self._let_go(waiting)
        return answers

    def _let_go(self, tasks: Sequence[asyncio.Task[dict[str, Any] | None]]) -> None:
        """Let late tasks go on in the background, as many as there is room for."""
        for task in tasks:
            if task.done() or task in self._background:
                continue
            if len(self._background) < BACKGROUND:
                self._background.add(task)
                task.add_done_callback(self._background.discard)
            else:
                task.cancel()

    def _start(self, job: Job) -> asyncio.Task[dict[str, Any] | None]:
        """Begin a job, or join the identical one under way: Label Studio asks the same in parallel."""
        key = (job.project, job.task, repr(job.data), id(job.config), id(job.settings))
        if (task := self._pending.get(key)) is None:
            task = self._pending[key] = self._loop.create_task(self._annotate(job))
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        return task

    async def _annotate(self, job: Job) -> dict[str, Any] | None:
        async with self._slots:
            metrics.under_way.inc()
            try:
                return await self._annotator.annotate(job)
            except Exception as error:
                self._report(job, error)
                raise
            finally:
                metrics.under_way.dec()

    @staticmethod
    def _report(job: Job, error: Exception) -> None:
        """Log and count a task without a prediction; an unforeseen error's text might quote the task."""
        foreseen = isinstance(error, CamvoError)
        code = error.code if isinstance(error, CamvoError) else "internal"
        metrics.tasks.labels(outcome=code).inc()
        log = _log.warning if isinstance(error, TaskError) else _log.error
        reason = str(error) if foreseen else type(error).__name__
        log("no_prediction", project=job.project, task=job.task, code=code, reason=reason)

    def _answer(self, job: Job | None, task: asyncio.Task[dict[str, Any] | None] | None) -> Prediction:
        if job is None or task is None:
            metrics.tasks.labels(outcome="task_unreadable").inc()
            return []
        if not task.done():
            metrics.tasks.labels(outcome="deadline").inc()
            _log.info("deadline", project=job.project, task=job.task)
            return []
        if task.cancelled() or task.exception() is not None:
            return []
        prediction = task.result()
        metrics.tasks.labels(outcome="audit" if prediction is None else "predicted").inc()
        return prediction or []

    async def _review(self, project: str) -> None:
        """Make the rewards of a whole project agree with its annotations, a few tasks in a transaction."""
        with self.ledger.read() as connection:
            tasks = feedback.annotated_tasks(connection, project)
        for start in range(0, len(tasks), _REVIEWED_TOGETHER):
            portion = tasks[start : start + _REVIEWED_TOGETHER]
            await self._writer.run(functools.partial(self._review_tasks, project, portion))

    def _review_tasks(self, project: str, tasks: Sequence[int], connection: Connection) -> None:
        for task in tasks:
            feedback.correct(connection, project, task, self.settings, self.clock())

    async def _drain(self, patience: float) -> None:
        self._expiry.cancel()
        pending = list(self._pending.values())
        if pending:
            await asyncio.wait(pending, timeout=patience)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _seed_pool(self) -> None:
        with self.ledger.read() as connection:
            for name, usage in money.usage_by_model(connection).items():
                if name in self.pool.names and (answered := usage.calls - usage.failures):
                    self.pool.observe(
                        name, usage.counted_tokens, usage.input_tokens, usage.output_tokens, calls=answered
                    )

    def _load(self) -> None:
        try:
            self.embedder.load()
            self.pool.count(self.pool.names[0], [{"role": "user", "content": "warm up"}])
        except CamvoError as error:
            _log.error("embedder_unavailable", code=error.code, reason=str(error))

    async def _give_up_lost_calls(self) -> None:
        """Book what calls of processes that died had reserved; now and then, by any process."""
        while True:
            await self._writer.run(lambda connection: money.expire(connection, self.clock()))
            await asyncio.sleep(_EXPIRY)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._expiry = self._loop.create_task(self._give_up_lost_calls())
        self._loop.run_forever()
