"""One process that annotates tasks: its event loop, ledger, models, embedder and annotator.

It is created after the fork: neither an event loop nor torch survives one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from backend.annotation.annotator import Annotator
from backend.annotation.asking import Voters
from backend.annotation.batch_stage import BatchStages
from backend.annotation.inspection import Inspector
from backend.annotation.job_questions import Images, JobQuestions
from backend.annotation.pack_checks import PackGuard
from backend.annotation.planner import Planner
from backend.annotation.trials import Trials
from backend.errors import LedgerError
from backend.learning.earlier_projects import EarlierProjects
from backend.learning.examples import Examples
from backend.learning.fits import BackgroundFits, Scorers, Students
from backend.learning.label_schemes import LabelSchemes
from backend.learning.states import States
from backend.ledger import Ledger, Writer
from backend.ledger.claims import end_lost_calls
from backend.ledger.database.spare_room import SpareRoom
from backend.ledger.money import usage_by_model
from backend.ledger.received import ReceivedAnswers, remove_stored, store_received
from backend.models import Pool, embedded_voters
from backend.models.call_ledger import CallLedger
from backend.models.embedder import Embedder
from backend.models.model import MAX_FACTOR, Used, freeze_loaded_objects
from backend.models.packed_pool import PackedPool
from backend.models.pool import CachingPool
from backend.models.rates.controller import LedgerRates
from backend.recounting.further import FurtherAsking
from backend.runtime.loop_thread import LoopThread
from backend.settings import Environment, Settings
from backend.telemetry import tracing
from backend.threads import Threads
from camvo.errors import CamvoError

_PAUSE = 60.0

_log = structlog.get_logger(__name__)


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


def _warm_up(embedder: Embedder, pool: Pool) -> None:
    """Load the embedder and a tokeniser; an embedder that cannot be loaded is logged."""
    try:
        embedder.load()
        pool[pool.names[0]].model.count([{"role": "user", "content": "warm up"}])
    except CamvoError as error:
        _log.error("embedder_unavailable", code=error.code, reason=str(error))
    freeze_loaded_objects()


_SETTLING = 1.0
"""The fewest seconds that a stopping process has to store the answers that have arrived."""


class AnnotationProcess:
    """What annotates tasks in one process. Call :meth:`start` before any work, and :meth:`close` at the end.

    Args:
        settings: the validated settings.
        environment: the ledger's address and the secrets.
        clock: returns unix seconds; tests may replace it.
        embedder: an embedder to use instead of a new one; closed with the process.
        thread: an event loop to use instead of a new one.
        give_way: called on the loop before each write, to let more important work go first.
        ends_when_full: whether work fails when the ledger's disk is full, instead of waiting for room.

    Attributes:
        ledger: the migrated ledger.
        writer: the process's one writer of the ledger.
        readers: the threads that read the ledger.
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
        embedder: Embedder | None = None,
        thread: LoopThread | None = None,
        give_way: Callable[[], object] = lambda: None,
        ends_when_full: bool = False,
    ) -> None:
        tracing.configure(environment.otlp_endpoint, content=environment.trace_content)
        self.settings = settings
        self.clock = clock
        self.ledger = Ledger(environment.database_url, clock=clock)
        self.embedder = embedder or Embedder(settings.embedder)
        if any(model.is_embedded for model in settings.models):
            embedded_voters.register(self.embedder)
        self.thread = thread or LoopThread()
        _store_received(self.ledger)
        spare = SpareRoom(self.ledger) if ends_when_full else None
        self.writer = Writer(self.ledger, give_way=give_way, spare=spare)
        rates = LedgerRates(self.writer)
        self.pool = Pool(settings.models, keys=environment.keys(settings.models), rates=rates)
        recall_usage(self.pool, self.ledger)
        self.readers = Threads(4, "ledger-reader")
        self.states = States(self.ledger, self.writer, self.readers, clock=clock)
        self._received = ReceivedAnswers(self.ledger)
        self._purchases = CallLedger(self.writer, clock, self._received)
        self.settlements = self._purchases.settlements
        self.queries = CachingPool(self.pool, self._purchases, retries=settings.retries, clock=clock)
        packs = PackedPool(self.pool, self._purchases, retries=settings.retries, clock=clock)
        voters = Voters(self.queries, self.pool, packs, PackGuard(self.ledger, self.readers))
        images = Images(environment.label_studio_url, environment.label_studio_api_key)
        self.questions = JobQuestions(self.embedder, images, voters)
        examples = Examples(self.ledger, self.readers, clock=clock)
        fits, students = BackgroundFits(self.readers, clock=clock), Students(self.readers, clock=clock)
        earlier = EarlierProjects(self.ledger, self.writer, self.readers, clock=clock)
        planner = Planner(self.states, fits, students, earlier)
        self.annotator = self._make_annotator(voters, examples, planner)
        self.inspector = Inspector(
            ledger=self.ledger,
            readers=self.readers,
            embedder=self.embedder,
            questions=self.questions,
            examples=examples,
            pool=self.pool,
        )
        self.further = FurtherAsking(
            ledger=self.ledger,
            writer=self.writer,
            readers=self.readers,
            questions=self.questions,
            examples=examples,
            planner=planner,
            voters=voters,
            clock=clock,
        )
        self.trials = Trials(
            ledger=self.ledger,
            readers=self.readers,
            embedder=self.embedder,
            questions=self.questions,
            examples=examples,
            pool=self.pool,
            voters=voters,
        )
        self._warm_up = threading.Thread(
            target=_warm_up, args=(self.embedder, self.pool), name="camvo-warm-up", daemon=True
        )

    def _make_annotator(self, voters: Voters, examples: Examples, planner: Planner) -> Annotator:
        ledger, readers, clock = self.ledger, self.readers, self.clock
        return Annotator(
            ledger=ledger,
            writer=self.writer,
            readers=readers,
            embedder=self.embedder,
            questions=self.questions,
            examples=examples,
            planner=planner,
            voters=voters,
            batch_stages=BatchStages(voters, self.pool, ledger, self.writer, readers, clock),
            scorers=Scorers(ledger, readers, clock=clock),
            schemes=LabelSchemes(ledger, self.writer, readers, self.embedder, clock),
            clock=clock,
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
        """The same, with slow models that have yet to answer many calls; these alone without ``outages``."""
        waits = self.pool.waits if outages else []
        return "; ".join(map(str, [*waits, *self.pool.backlogs]))

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
        self.writer.close()
        self.thread.stop()
        self._received.close()
        if self._warm_up.is_alive():
            self._warm_up.join(10.0)  # torch aborts a process that ends in the middle of its import
        self.readers.shutdown()
        self.embedder.close()
        self.ledger.close()
        tracing.shut_down()
