"""One process that annotates tasks: its event loop, ledger, models, embedder and annotator.

It is created after the fork: neither an event loop nor torch survives one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import structlog

from backend.annotation.annotator import Annotator
from backend.annotation.asking import PackGuard, Voters
from backend.annotation.batch_stage import BatchStages
from backend.annotation.inspection import Inspector
from backend.annotation.job_questions import Images, JobQuestions
from backend.annotation.planner import Planner
from backend.annotation.trials import Trials
from backend.errors import LedgerError
from backend.learning.examples import Examples
from backend.learning.label_schemes import LabelSchemes
from backend.learning.states import BackgroundFits, EarlierProjects, Scorers, States, Students
from backend.ledger import Ledger, LedgerAccess, Writer
from backend.ledger.answers import ReceivedAnswers, remove_stored, store_received
from backend.ledger.claims import end_lost_calls
from backend.ledger.database.database import SpareRoom
from backend.ledger.money import usage_by_model
from backend.models import Pool, embedded_voters
from backend.models.call_ledger import CallLedger
from backend.models.embedder import Embedder
from backend.models.model import MAX_FACTOR
from backend.models.packed_pool import PackedPool
from backend.models.pool import CachingPool
from backend.models.prices import Used
from backend.models.rates.controller import LedgerRates
from backend.recounting.further import FurtherAsking
from backend.settings import Environment, Settings
from backend.telemetry import tracing
from backend.threads import ENDING, Threads, await_end
from camvo.errors import CamvoError

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


_WORKERS = 8
"""Threads for what a coroutine calls with ``asyncio.to_thread``."""


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose default executor does not keep the process from ending."""

    def __init__(self) -> None:
        super().__init__()
        self.workers = Threads(_WORKERS, "camvo-worker")

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        return super().run_in_executor(executor or self.workers, func, *args)


class LoopThread:
    """An event loop and its thread; create it after the fork, which no loop survives."""

    def __init__(self) -> None:
        self.loop = _Loop()
        self._thread: threading.Thread | None = None

    def start(self, *background: Coroutine[Any, Any, None]) -> None:
        """Start the thread, with coroutines that run until the loop stops."""
        self._thread = threading.Thread(target=self._run, args=background, name="camvo-loop", daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine on the loop; its result is a future for other threads."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def finish(self, coroutine: Coroutine[Any, Any, object], seconds: float) -> None:
        """Run a coroutine that ends within some seconds, or not at all if the loop stands still."""
        turns = False
        try:
            turns = self.turns(ENDING)
        finally:
            if not turns:  # or Ctrl-C came, and Python would print that nobody awaited the coroutine
                coroutine.close()
        if not turns:
            return
        with contextlib.suppress(TimeoutError):
            self.submit(coroutine).result(seconds + ENDING)

    def turns(self, seconds: float) -> bool:
        """Whether the loop calls a function within some seconds; if not, the log says what it computes."""
        called = threading.Event()
        self.call_soon(called.set)
        if called.wait(seconds):
            return True
        _log.error("loop_stands_still", where=self._current_line())
        return False

    def _current_line(self) -> str:
        """The file and line that the loop's thread is at."""
        number = None if self._thread is None else self._thread.ident
        collects = gc.isenabled()
        gc.disable()  # a collection within _current_frames waits for itself: CPython's issue 106883
        try:
            frame = None if number is None else sys._current_frames().get(number)
        finally:
            if collects:
                gc.enable()
        return "" if frame is None else f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call a function on the loop, or not at all if the loop has stopped; a signal handler may do so."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(callback)

    def end_work(self) -> None:
        """Cancel what runs on the loop, and give it :data:`backend.threads.ENDING` seconds to end."""
        if self._thread is not None:
            self.finish(_cancel_others(), 0.0)

    def stop(self) -> None:
        """Stop the loop and cancel what runs on it; a thread that computes without end is left behind."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not None:
            await_end(self._thread)
        self.loop.workers.shutdown()

    def _run(self, *background: Coroutine[Any, Any, None]) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(_report)
        # The loop holds weak references only; the list keeps these tasks alive.
        tasks = [self.loop.create_task(coroutine) for coroutine in background]
        for task in tasks:
            task.add_done_callback(_report_end)
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_others())
        self.loop.close()


async def _cancel_others() -> None:
    """Cancel all tasks of the loop except this one, and wait for their ends."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that nobody waits for, without its text and traceback, which may quote a task."""
    error = context.get("exception")
    _log.error("late_failure", reason=context.get("message"), kind=type(error).__name__)


def _report_end(task: asyncio.Task[None]) -> None:
    """Log that background work has failed, which nobody awaits: a restart brings it back."""
    if not task.cancelled() and (error := task.exception()) is not None:
        name = task.get_coro().__qualname__  # type: ignore[union-attr]
        _log.error("background_work_ended", work=name, kind=type(error).__name__, fix="restart the process")


_PAUSE = 60.0


async def _settle_lost_calls(writer: Writer, ledger: Ledger) -> None:
    """Book the calls of processes that have died, at once and then every minute until cancelled."""
    while True:
        try:
            await writer.run(end_lost_calls)
            await asyncio.to_thread(remove_stored, ledger)
        except LedgerError as error:
            _log.error("lost_calls_not_booked", code=error.code, reason=str(error))
        await asyncio.sleep(_PAUSE)


def _store_received(ledger: Ledger) -> None:
    """Store what killed processes had received; if the ledger is down, a later process does it."""
    if ledger.file is None:  # PostgreSQL keeps no such files, and a start need not write to it
        return
    try:
        with ledger.write() as connection:
            store_received(connection)
        remove_stored(ledger)
    except LedgerError as error:
        _log.error("received_answers_not_stored", code=error.code, reason=str(error))


def recall_usage(pool: Pool, ledger: Ledger) -> None:
    """Tell the pool how many tokens its models used in the past, so that it predicts prices from them."""
    with ledger.read() as connection:
        usages = usage_by_model(connection, pool.most_output, max_factor=MAX_FACTOR)
    for name, usage in usages.items():
        used = Used(usage.counted_tokens, usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        pool[name].model.meter.observe(used, calls=usage.calls, tasks=usage.tasks)


_LONGEST_IMPORT = 60.0
"""Seconds that the libraries may take to be imported on a busy machine."""


def _warm_up(embedder: Embedder, pool: Pool) -> None:
    """Load the embedder and a tokeniser; an embedder that cannot be loaded is logged."""
    try:
        embedder.load()
        pool[pool.names[0]].model.count([{"role": "user", "content": "warm up"}])
    except CamvoError as error:
        _log.error("embedder_unavailable", code=error.code, reason=str(error))
    _freeze_loaded_objects()


_NEW_OBJECTS = 10_000
"""So many more objects are made than freed between two collections."""


@functools.cache
def _freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collections, once per process; then collect less often.

    The libraries have about 750,000 objects. A collection over them takes half a second and blocks everything
    else. Nearly all objects of a task end without a collection, and the default of one for every 700 new
    objects takes a thirtieth of the processor's time.
    """
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


_SETTLING = 1.0
"""The fewest seconds that a stopping process has to store the answers that have arrived."""


class AnnotationProcess:
    """What annotates tasks in one process. Call :meth:`start` before any work, and :meth:`close` at the end.

    Args:
        settings: the validated settings.
        environment: the ledger's address and the secrets.
        clock: returns unix seconds; tests may replace it.
        thread: an event loop to use instead of a new one.
        give_way: called on the loop before each write, to let more important work go first.
        ends_when_full: whether work fails when the ledger's disk is full, instead of waiting for room.

    Attributes:
        ledger: the migrated ledger.
        writer: the process's one writer of the ledger.
        access: how coroutines read and write the ledger.
        states: what is learnt of each question.
        embedder: turns texts into contexts.
        pool: the models.
        queries: asks one model one thing; the ledger has the answer from then on.
        thread: the event loop and its thread.
        questions: what a job asks.
        annotator: takes a job to its prediction.
        inspector: shows what models are sent about a task, and what they answered.
        further: asks models that decided tasks left out.
        trials: asks every model about tasks, and stores no round.
        settlements: the paid answers that are still to be stored.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        *,
        clock: Callable[[], float] = time.time,
        thread: LoopThread | None = None,
        give_way: Callable[[], object] = lambda: None,
        ends_when_full: bool = False,
    ) -> None:
        tracing.configure(environment.otlp_endpoint, content=environment.trace_content)
        self.settings = settings
        self.clock = clock
        self.ledger = Ledger(environment.database_url, clock=clock)
        self.embedder = Embedder(settings.embedder)
        if any(model.is_embedded for model in settings.models):
            embedded_voters.register(self.embedder)
        self.thread = thread or LoopThread()
        _store_received(self.ledger)
        spare = SpareRoom(self.ledger) if ends_when_full else None
        self.writer = Writer(self.ledger, give_way=give_way, spare=spare)
        rates = LedgerRates(self.writer)
        self.pool = Pool(settings.models, keys=environment.keys(settings.models), rates=rates)
        recall_usage(self.pool, self.ledger)
        self._readers = Threads(4, "ledger-reader")
        self.access = LedgerAccess(self.ledger, self.writer, self._readers, clock)
        self.states = States(self.access)
        self._received = ReceivedAnswers(self.ledger)
        self._purchases = CallLedger(self.writer, clock, self._received)
        self.settlements = self._purchases.settlements
        self.queries = CachingPool(self.pool, self._purchases, retries=settings.retries)
        packs = PackedPool(self.pool, self._purchases, retries=settings.retries)
        voters = Voters(self.queries, self.pool, packs, PackGuard(self.access))
        images = Images(environment.label_studio_url, environment.label_studio_api_key)
        self.questions = JobQuestions(self.embedder, images, voters, Examples(self.access))
        fits, students = BackgroundFits(self._readers), Students(self._readers)
        planner = Planner(self.states, fits, students, EarlierProjects(self.access))
        self.annotator = Annotator(
            access=self.access,
            questions=self.questions,
            planner=planner,
            voters=voters,
            batch_stages=BatchStages(voters, self.pool, self.access),
            scorers=Scorers(self.access),
            schemes=LabelSchemes(self.access, self.embedder),
        )
        self.inspector = Inspector(self.access, self.questions, self.pool)
        self.further = FurtherAsking(self.access, self.questions, planner, voters)
        self.trials = Trials(self.access, self.questions, self.pool, voters)
        self._warm_up = threading.Thread(
            target=_warm_up, args=(self.embedder, self.pool), name="camvo-warm-up", daemon=True
        )

    def start(self, *background: Coroutine[Any, Any, None]) -> None:
        """Start the loop, with what keeps the ledger's claims and money right, and load the slow libraries.

        Args:
            background: further coroutines that run until the loop stops.
        """
        self.thread.start(
            _settle_lost_calls(self.writer, self.ledger), self._purchases.renew_claims(), *background
        )
        self._warm_up.start()

    def waiting(self) -> str:
        """What the calls of jobs wait for, in words; empty if for nothing. Any thread may call this."""
        return "; ".join(map(str, self.pool.waits))

    def awaited(self, *, outages: bool = True) -> str:
        """The same, with slow models that have yet to answer many calls, and with the ledger.

        Without ``outages``, models that are down are left out.
        """
        waits = self.pool.waits if outages else []
        ledger = f"waiting for the ledger ({self.ledger.place} cannot be written)"
        down = [ledger] if self.ledger.is_down else []
        return "; ".join(map(str, [*down, *waits, *self.pool.backlogs]))

    def stop_asking(self) -> None:
        """Ask no model any more, because the process stops; a signal handler may call this.

        Calls in flight continue. A task that needs another one gets no prediction, also if the call waits for
        its rate already.
        """
        self.pool.gate.shut()
        self.thread.call_soon(self.pool.refuse_waiting)

    def store_paid_answers(self, until: float) -> None:
        """Store the answers that have arrived, until a time of the monotonic clock."""
        seconds = max(until - time.monotonic(), _SETTLING)
        self.thread.finish(self.settlements.finish(seconds), seconds)

    def close(self) -> None:
        """Write what is queued, and stop. Let the work end first, and store paid answers."""
        self.thread.end_work()  # or it logs that it cannot write any more
        self.writer.close()
        self.thread.stop()
        self._received.close()
        if self._warm_up.is_alive():
            # A process that ends amid an import may abort, or wait for the import's lock for ever.
            self._warm_up.join(_LONGEST_IMPORT)
        self._readers.shutdown()
        self.embedder.close()
        self.ledger.close()
        tracing.shut_down()
