"""One worker process: an event loop in its own thread, and everything that runs on it.

A Flask view submits work to the loop and waits until its deadline at most. Unfinished work continues,
within a bound, so that a repeated request finds the answers. A runtime is created after the fork: neither an
event loop nor torch survives one.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog
from sqlalchemy import Connection

from backend.annotation.inspection import InspectedTask
from backend.annotation.job import Job
from backend.annotation.job_questions import ALL
from backend.annotation.queue import Answer, JobQueue
from backend.errors import BadBodyError, LedgerError
from backend.label_studio.payloads import START_TRAINING, JobTerms, WebhookEvent, parse_task
from backend.learning.actions import CatchUp, Training, forget_next, parts, prepare_event
from backend.learning.annotators import ReliabilityFits, ReliabilityWatch
from backend.learning.label_schemes import Asked, config_with_rounds
from backend.learning.teaching import RewardCorrections
from backend.ledger import LedgerAccess, money
from backend.ledger.database.statements import try_write
from backend.ledger.money import Purse, from_picodollars
from backend.ledger.recounts import Counting, Recounts
from backend.questions import LabelConfig
from backend.questions.label_config import require_questions
from backend.quotes.quote import JobTally, Quote
from backend.quotes.quote_maker import QuoteMaker
from backend.recounting.automatic import AutomaticRecounts, Delivery, RecountStep
from backend.recounting.further import Completing, Portion, ask_portion
from backend.recounting.recounter import Doubts, Recounter
from backend.runtime import AnnotationProcess, LoopThread
from backend.server.served_projects import ServedProjects
from backend.server.status.alarm_watch import AlertWatch
from backend.settings import Environment, Settings
from backend.telemetry import metrics
from backend.threads import Threads
from camvo.errors import CamvoError

_PAUSE = 60.0
"""Seconds after which another process's unfinished deletion is looked for."""

_log = structlog.get_logger(__name__)


class _Deletions:
    """Deletes the records of tasks marked as deleted, also after a restart. Used from one event loop only."""

    def __init__(self, access: LedgerAccess, settings: Settings) -> None:
        self._access, self._settings = access, settings
        self._marked = asyncio.Event()

    def wake(self) -> None:
        """Start immediately, because tasks were marked."""
        self._marked.set()

    async def run(self) -> None:
        """Forget marked tasks until cancelled."""
        while True:
            self._marked.clear()
            try:
                while await self._access.writer.persist(self._forget):
                    pass
            except CamvoError as error:
                _log.error("deleted_tasks_not_forgotten", code=error.code, reason=str(error))
            try:
                async with asyncio.timeout(_PAUSE):
                    await self._marked.wait()
            except TimeoutError:
                continue

    def _forget(self, connection: Connection) -> bool:
        return forget_next(connection, self._settings, self._access.clock())


_KEPT: Final = 60.0
"""Seconds for which a result waits for the next request, which a client sends at once."""

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Entry(Generic[_Result]):
    """Work, and when somebody last waited for it."""

    future: Future[_Result]
    asked_at: float


class _LastingWork(Generic[_Result]):
    """Work under way, and results that nobody has fetched yet; safe for threads."""

    def __init__(self, deadline: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._deadline, self._clock = deadline, clock
        self._entries: dict[Hashable, _Entry[_Result]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many pieces of work are remembered."""
        return len(self._entries)

    def result(self, asked: Hashable, start: Callable[[], Future[_Result]]) -> _Result:
        """The result of some work, which is started unless it is under way."""
        with self._lock:
            self._drop_abandoned()
            entry = self._entries.get(asked)
            if entry is None:
                entry = self._entries[asked] = _Entry(start(), self._clock())
        try:
            return entry.future.result(self._deadline)
        finally:
            with self._lock:
                entry.asked_at = self._clock()
                if entry.future.done() and self._entries.get(asked) is entry:
                    del self._entries[asked]

    def _drop_abandoned(self) -> None:
        """Forget the results whose client went away."""
        latest = self._clock() - self._deadline - _KEPT
        for asked, entry in list(self._entries.items()):
            if entry.future.done() and entry.asked_at < latest:
                del self._entries[asked]


class _Quotes:
    """Counts tasks, and makes quotes of what was counted."""

    def __init__(
        self,
        process: AnnotationProcess,
        settings: Callable[[str], Settings],
        threads: Executor,
        deadline: float,
    ) -> None:
        self._process, self._settings, self._threads = process, settings, threads
        self._under_way = _LastingWork[Quote](deadline)

    def count(
        self, project: str, config: LabelConfig, tasks: Sequence[Any], below: float = ALL
    ) -> tuple[dict[str, int], int | None]:
        """Count some tasks of a project: the sums, and the number of the task to send with :meth:`quote`."""
        require_questions(config)
        settings = self._settings(project)
        maker = QuoteMaker(self._process, settings, project)
        maker.count(_jobs(project, self._kept(project, config, settings), settings, tasks), below)
        sums = {field.name: getattr(maker.tally, field.name) for field in fields(maker.tally)}
        return sums, None if maker.example is None else maker.example.task

    def _kept(self, project: str, config: LabelConfig, settings: Settings) -> LabelConfig:
        """The label config with the questions whose rounds tasks keep; a run asks about the others."""
        asked = Asked.under(settings, config, self._process.embedder.identity)
        with self._process.ledger.read() as connection:
            return config_with_rounds(connection, project, asked, time.time())

    def quote(
        self, project: str, config: LabelConfig, example: Sequence[Any], counted: Mapping[str, int]
    ) -> Quote:
        """The quote of tasks that were counted."""
        require_questions(config)
        tally, settings = _tally(counted), self._settings(project)

        def start() -> Future[Quote]:
            maker = QuoteMaker(self._process, settings, project, tally=tally)
            for job in _jobs(project, self._kept(project, config, settings), settings, example[:1]):
                maker.ask_as_of(job)
            return self._threads.submit(maker.quote)

        return self._under_way.result((project, repr(example), astuple(tally)), start)


def _jobs(project: str, config: LabelConfig, settings: Settings, tasks: Sequence[Any]) -> list[Job]:
    parsed = [task for raw in tasks if (task := parse_task(raw)) is not None]
    return [Job(project, *task, config, settings) for task in parsed]


def _tally(counted: Mapping[str, int]) -> JobTally:
    if counted.keys() != {field.name for field in fields(JobTally)}:
        raise BadBodyError(
            "other sums than those of a count", where="body.counted", fix="send what POST /quote answers"
        )
    return JobTally(**counted)


_LONGEST = 0.05
"""Seconds after which the loop continues, even if the request is not answered."""


class _UrgentRequests:
    """The urgent requests of one process, and the event loop that pauses for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[tuple[threading.Event, float]] = set()  # set once answered; when to stop waiting
        self._lock = threading.Lock()
        self._not_before = 0.0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Pause the loop while the block runs in another thread, for 50 ms at most."""
        request = threading.Event(), time.monotonic() + _LONGEST
        with self._lock:
            self._open.add(request)
        with suppress(RuntimeError):  # the loop is closed and computes nothing
            self._loop.call_soon_threadsafe(self.give_way)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(request)
            request[0].set()

    def give_way(self) -> None:
        """Wait until the open requests are answered. Called on the loop, for each request and each write."""
        start = time.monotonic()
        with self._lock:
            requests = [*self._open]
        if requests and start >= self._not_before:
            for answered, until in requests:
                answered.wait(max(until - time.monotonic(), 0.0))
            end = time.monotonic()
            self._not_before = end + (end - start)


_PATIENCE = 10.0
"""Seconds after which a webhook is refused because its write was not committed."""

STANDSTILL: Final = 10.0
"""Seconds beyond what a request may take after which its view no longer waits for the event loop."""

_READY_PATIENCE = 2.0
"""Seconds that the event loop may take for its next step when ``/ready`` asks, and then a write."""

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
    """

    def __init__(
        self, settings: Settings, environment: Environment, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._thread = LoopThread()
        self._urgent_requests = _UrgentRequests(self._thread.loop)
        self._process = AnnotationProcess(
            settings, environment, clock=clock, thread=self._thread, give_way=self._urgent_requests.give_way
        )
        self.ledger, self.embedder, self.pool = (
            self._process.ledger,
            self._process.embedder,
            self._process.pool,
        )
        self._access, self._writer = self._process.access, self._process.writer
        self.projects = ServedProjects(
            self.ledger, settings, write=self._write, clock=clock, pool=self.pool, environment=environment
        )
        self._trainings: set[Future[None]] = set()
        self._doubting = _LastingWork[Doubts](settings.deadline)
        self._reliability_fits = ReliabilityFits(self._access, settings)
        self._reliabilities = ReliabilityWatch(self._reliability_fits)
        sys.setswitchinterval(_SWITCH)
        self._jobs = JobQueue(self._process.annotator, settings.concurrency, self._process.waiting)
        self._deletions = _Deletions(self._access, settings)
        self.alert_watch = AlertWatch(self.ledger, self._writer, settings, environment)
        self._counting = Threads(1, "recounter")
        self.recounter = Recounter(self._access, self._process.states, self._counting, settings)
        self.quotes = _Quotes(self._process, self.projects.settings, self._counting, settings.deadline)
        self.recounts = self._make_recounts(environment)
        self.completing = Completing(
            access=self._access, further=self._process.further, settings=settings, environment=environment
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
            access=self._access,
            annotator=self._process.annotator,
            settings=self.settings,
            environment=environment,
        )
        return AutomaticRecounts(self._access, self.recounter, delivery, self.settings)

    def _make_training(self, environment: Environment) -> Training:
        access, settings = self._access, self.settings
        return Training(
            [
                CatchUp(access, settings, environment),
                RewardCorrections(access, settings),
                self._reliability_fits,
                RecountStep(self.recounter, self.recounts),
            ]
        )

    def predict(
        self,
        project: str,
        config: LabelConfig,
        settings: Settings,
        tasks: Sequence[Any],
        *,
        again: bool = False,
        stored_only: bool = False,
        terms: JobTerms | None = None,
    ) -> Future[list[Answer]]:
        """Start to predict raw tasks; the result, in their order, comes at the deadline at the latest.

        A malformed task gets ``[]``, and if it is ``stored_only`` so does a task without a round. ``terms``
        say what the job that the tasks belong to may cost; the settings are the project's.
        """
        require_questions(config)
        # Label Studio waits for what it asks about, camvo predict does not
        hurried = terms is None
        job = partial(
            Job, config=config, settings=settings, again=again, stored_only=stored_only, hurried=hurried
        )
        if terms is not None:
            job = partial(
                job,
                purse=terms.purse,
                aim_usd=terms.aim_usd,
                everyone=terms.everyone,
                waits=not terms.no_wait,
                below=terms.below,
            )
        jobs = [None if (task := parse_task(raw)) is None else job(project, *task) for raw in tasks]
        return self._thread.submit(self._jobs.answer_request(jobs, settings.deadline))

    def inspect(
        self, project: str, task: int, config: LabelConfig | None, raw: Any, problem: str
    ) -> Future[InspectedTask]:
        """What models are sent about a task, what they answered, and what became of it; nothing is sent.

        If the label config and the task as Label Studio sends it are not known, ``problem`` says why.
        """
        parsed = None if raw is None else parse_task(raw)
        job = None
        if parsed is not None and config is not None:
            job = Job(project, *parsed, config, self.projects.settings(project))
        return self._thread.submit(self._process.inspector.inspect(project, task, job, problem))

    def learn(self, event: WebhookEvent) -> None:
        """Store what a webhook says; the states of all processes catch up with it.

        START_TRAINING only starts a training in the background.
        """
        if event.action == START_TRAINING:
            future = self._thread.submit(self._training.train(self.projects.with_room(event)))
            self._trainings.add(future)
            future.add_done_callback(self._trainings.discard)
            return
        for part in parts(self.projects.with_room(event)):
            self._write(prepare_event(part, self.settings, self.clock))
        if event.task_ids:
            self._thread.call_soon(self._deletions.wake)
        if event.annotations or event.annotation_ids:
            self._thread.call_soon(partial(self._reliabilities.wake, event.project_key))

    def recount(self, project: str) -> Counting | None:
        """Recount a project's stored votes, or wait for the recount under way; nothing is delivered."""
        future = self._thread.submit(self.recounter.recount(project, "command"))
        return future.result(self.settings.deadline)

    def doubts(self, project: str, usd: float, most: int) -> tuple[Doubts, float]:
        """Find the tasks on which further votes are worth most, and what such votes have cost so far, in $.

        Nothing is asked. ``usd`` limits what further votes may cost in all, also in earlier runs.
        """
        with self.ledger.read() as connection:
            spent = from_picodollars(money.balance(connection, project, "further").spent)
        asked = project, max(usd - spent, 0.0), most
        return self._doubting.result(asked, lambda: self._thread.submit(self.recounter.doubts(*asked))), spent

    def ask_more(
        self, project: str, config: LabelConfig, tasks: Sequence[Any], *, usd: float, worth_usd: float
    ) -> Future[Portion]:
        """Ask models that decided tasks left out, while their policy finds a vote worth asking for."""
        ask = partial(self._process.further.ask_in_doubt, worth_usd=worth_usd)
        return self._thread.submit(self._ask(project, config, tasks, Purse("further", usd), ask))

    def complete(
        self, project: str, config: LabelConfig, tasks: Sequence[Any], purse: Purse
    ) -> Future[tuple[Portion, Counting | None]]:
        """Ask for votes that are missing, and decide the tasks anew that get one."""

        async def complete() -> tuple[Portion, Counting | None]:
            portion = await self._ask(project, config, tasks, purse, self._process.further.complete)
            return portion, await self.recounter.recount_completed(project)

        return self._thread.submit(complete())

    async def _ask(
        self,
        project: str,
        config: LabelConfig,
        tasks: Sequence[Any],
        purse: Purse,
        ask: Callable[[Job], Coroutine[Any, Any, Any]],
    ) -> Portion:
        """Ask about raw tasks that are decided already, for half of the deadline."""
        require_questions(config)
        settings = self.projects.settings(project)
        jobs = [
            Job(project, *task, config, settings, purse=purse, hurried=True)
            for raw in tasks
            if (task := parse_task(raw)) is not None
        ]
        return await ask_portion(jobs, ask, at_once=settings.concurrency, deadline=settings.deadline / 2.0)

    def waiting(self) -> str:
        """What the calls of jobs in this process wait for, in words; empty if for nothing."""
        return self._process.awaited()

    def delivered(self, project: str, tasks: Sequence[int], through: int) -> None:
        """Remember that Label Studio shows these tasks' labels by the countings up to ``through``."""
        self._write(lambda connection: Recounts(connection, project).set_delivered(tasks, through))

    def _write(self, function: Callable[[Connection], object], seconds: float = _PATIENCE) -> None:
        """Run a function in a write transaction, ahead of the writer's other work, within some seconds.

        Label Studio waits for the answer, and an annotator for Label Studio. The write goes through the
        process's one writer, since another connection would wait behind each of the writer's batches.
        """
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
            self._write(try_write, _READY_PATIENCE)
        except LedgerError:
            return False
        return not self._process.settlements.waiting

    def ready(self) -> dict[str, bool]:
        """Whether each part is ready for work: the loop if it turns in time, the ledger if a write succeeds.

        ``keys`` is false if any model's key is missing.
        """
        return {
            "loop": self._thread.turns(_READY_PATIENCE),
            "ledger": self._can_write(),
            "embedder": self.embedder.loaded,
            "keys": not self.pool.missing_keys(),
        }

    def stop_asking(self) -> None:
        """Call no more models, because the process stops; a signal handler may call this."""
        self._process.stop_asking()

    def close(self, patience: float = 10.0) -> None:
        """Let jobs and trainings finish for ``patience`` seconds, then stop; paid answers are stored."""
        until = time.monotonic() + patience
        self.recounter.stop()
        self._thread.finish(self._jobs.drain(patience), patience)
        self._process.store_paid_answers(until)
        wait_for(list(self._trainings), min(max(until - time.monotonic(), 0.0), _TRAINING))
        self._counting.shutdown()
        self._process.close()
