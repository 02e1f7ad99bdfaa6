"""The desk sends the wanted lines, polls the jobs, settles those that have ended, and cleans up.

Everything that it knows is in the ledger, so another process can continue at any time. If a process died
while sending a job, the provider may have it: the job is looked for there before anything is sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.annotation.batch_filling import AT_ONCE, Filling, JobRequest, Requests, Settlement, fill
from backend.errors import (
    BudgetExhaustedError,
    ContextTooLongError,
    KeyRejectedError,
    LedgerError,
    ModelError,
    RateLimitedError,
    RejectedError,
    TaskDeletedError,
)
from backend.ledger import Ledger, Writer
from backend.ledger.batches import OPEN, BatchJob, BatchLine, Jobs, Lines
from backend.ledger.money import Purse
from backend.models import Pool
from backend.models.batches.provider import WINDOW, BatchProvider, GoneError, ProviderBatch
from backend.settings import BudgetSettings, ModelSettings
from camvo.twins import same_model

_LEASE: Final = 15.0
"""Seconds until another process may take over a job whose sender is silent."""

_REFUSED: Final = (KeyRejectedError, RejectedError, ContextTooLongError, RateLimitedError)
"""Failures that say for certain that the provider has not taken the batch."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class DeskReport:
    """The result of a look at the jobs.

    Attributes:
        out: jobs whose answers are still to come.
        settled: how many jobs were settled.
        sent: how many lines were sent.
        short: why money for the next line is missing; ``None`` if it is not.
        full: models whose provider takes no more at the moment, because too many tokens are enqueued.
        problems: what the user has to know, such as a provider that refuses batches.
    """

    out: list[BatchJob] = field(default_factory=list)
    settled: int = 0
    sent: int = 0
    short: BudgetExhaustedError | None = None
    full: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


class Desk:
    """Looks after batch jobs. Used from one event loop only.

    Args:
        ledger: where jobs are read.
        writer: writes them.
        pool: the models.
        models: their settings.
        retries: how often a line is tried again.
        clock: unix seconds.
    """

    def __init__(  # noqa: PLR0917 - what looking after jobs needs
        self,
        ledger: Ledger,
        writer: Writer,
        pool: Pool,
        models: Sequence[ModelSettings],
        retries: int,
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._writer, self._pool, self._clock = ledger, writer, pool, clock
        self._models = {arm.name: arm for model in models for arm in (model, model.packed) if arm is not None}
        self._requests = Requests(pool)
        self._settlement = Settlement(writer, pool, self._requests, retries, clock)
        self._lease, self._owner = _LEASE, uuid.uuid4().hex
        self._sending: set[str] = set()
        self._refused: dict[str, str] = {}

    async def renew_leases(self) -> None:
        """Renew the leases of the jobs that are being sent, until this coroutine is cancelled."""
        while True:
            await asyncio.sleep(self._lease / 3)
            if self._sending:
                sending = sorted(self._sending)
                try:
                    await self._writer.persist(partial(self._renew, sending))
                except LedgerError as error:
                    _log.error("leases_not_renewed", code=error.code, reason=str(error))

    def _renew(self, jobs: Sequence[str], connection: Connection) -> None:
        Jobs(connection).renew(jobs, self._owner, self._lease)

    async def look(self, project: str | None = None) -> DeskReport:
        """Poll the jobs; settle those that have ended, and clean up after them.

        Args:
            project: look at its jobs only.
        """
        report = DeskReport()
        for job in self._read(
            lambda connection: Jobs(connection).find(states=(*OPEN, "ended"), project=project)
        ):
            if job.model not in self._models:
                report.problems.append(
                    f"{job.model} is not in camvo.yaml any more: job {job.id[:8]} is left alone"
                )
                continue
            try:
                await self._look_at(job, report)
            except ModelError as error:
                report.problems.append(f"job {job.id[:8]}: {error}")
        report.out = self.out(project)
        return report

    def out(self, project: str | None = None) -> list[BatchJob]:
        """The jobs whose answers are still to come."""
        found: list[BatchJob] = self._read(
            lambda connection: Jobs(connection).find(states=OPEN, project=project)
        )
        return found

    async def send(
        self, project: str, model: str, budget: BudgetSettings, report: DeskReport, purse: Purse | None = None
    ) -> None:
        """Send what is wanted of one model, in as many jobs as its provider's limits and the budget allow."""
        while model not in self._refused and model not in report.full:
            job = await self._fill(project, model, budget, report, purse)
            if job is None:
                return
            try:
                if not await self._send(job, report):
                    return
            except ModelError as error:
                report.problems.append(f"job {job.id[:8]}: {error}")
                return

    async def cancel(self, job: BatchJob) -> None:
        """End a job early. Lines that have run are paid and settled as usual; the others cost nothing."""
        await self._writer.persist(lambda connection: Jobs(connection).change(job.id, cancelled=True))
        if job.state == "out" and job.provider_id is not None:
            with contextlib.suppress(GoneError):  # the next look gives its lines back
                await self._pool[job.model].batches.cancel(job.provider_id)
        elif job.state == "filling" and await self._leased(job):
            await self._refuse(job, "batch_cancelled")

    async def _look_at(self, job: BatchJob, report: DeskReport) -> None:
        provider = self._pool[job.model].batches
        if job.state == "ended":
            await self._close(job, provider)
        elif job.state == "out" and job.provider_id is not None:
            batch = await self._retrieved(job, job.provider_id, provider)
            if batch.ended:
                await self._back(job, batch, provider, report)
        elif await self._leased(job):
            await self._recover(job, provider, report)

    async def _retrieved(self, job: BatchJob, name: str, provider: BatchProvider) -> ProviderBatch:
        """The job's batch. One that is gone has ended if the job was cancelled, or its time is over.

        Otherwise it may be another account's, whose key is to be set again: nothing is sent twice.
        """
        try:
            return await provider.retrieve(name)
        except GoneError:
            if not job.cancelled and (job.due_at is None or self._clock() < job.due_at):
                raise
            # Its results were kept for weeks after that, so it was charged for.
            answered = 0 if job.cancelled else job.lines
            return ProviderBatch(name, ended=True, created_at=job.created_at, answered=answered)

    async def _recover(self, job: BatchJob, provider: BatchProvider, report: DeskReport) -> None:
        """Take over a job whose sender is gone."""
        if job.state == "filling":
            if job.cancelled:
                await self._refuse(job, "batch_cancelled")
            else:
                await self._send(job, report)
            return
        known = self._read(lambda connection: Jobs(connection).provider_ids())
        found = await provider.search(job.id, job.sent_at or job.created_at, known)
        if found.batch is not None:
            await self._found(job, found.batch)
        elif found.unclear:
            report.problems.append(
                f"job {job.id[:8]} may be one of {len(found.unclear)} batches that still run: it is held"
                " until their results say whose they are"
            )
        elif job.cancelled:
            await self._refuse(job, "batch_cancelled")
        else:
            await self._send(job, report)

    async def _fill(
        self, project: str, model: str, budget: BudgetSettings, report: DeskReport, purse: Purse | None
    ) -> BatchJob | None:
        """Claim lines for a new job; ``None`` if none is wanted, or none can be sent now."""
        allowed = self._read(partial(self._tokens_left, model))
        if allowed is not None and allowed <= 0:
            return None
        request = JobRequest(
            uuid.uuid4().hex,
            project,
            model,
            self._owner,
            self._lease,
            self._pool[model].batches.limits,
            allowed,
            budget,
            purse,
        )
        self._sending.add(request.id)
        filling = Filling()
        while not filling.full:
            filling = await self._writer.persist(
                partial(fill, job=request, requests=self._requests, so_far=filling)
            )
        if filling.short is not None:
            report.short = filling.short
        if not filling.requests:
            self._sending.discard(request.id)
            return None
        filled: BatchJob | None = self._read(lambda connection: Jobs(connection).get(request.id))
        return filled

    def _tokens_left(self, model: str, connection: Connection) -> int | None:
        """How many more tokens may be enqueued; ``None`` for any number."""
        one_model = same_model(self._models).get(model, frozenset({model}))
        jobs = Jobs(connection)
        limits = [self._models[model].batch_tokens, jobs.learned_limit(one_model)]
        known = [limit for limit in limits if limit is not None]
        return min(known) - jobs.enqueued(one_model) if known else None

    async def _send(self, job: BatchJob, report: DeskReport) -> bool:
        """Send a filled job; return whether its provider took it. After an error it is looked for first."""
        provider = self._pool[job.model].batches
        self._sending.add(job.id)
        try:
            out = self._lines(job)
            bodies = {custom_id: self._requests.body(lines) for custom_id, lines in out.items()}
            content = [(custom_id, body) for custom_id, body in bodies.items() if body is not None]
            if not content:  # all its tasks were deleted
                await self._refuse(job, TaskDeletedError.code)
                return True
            files = await provider.upload(job.id, content)
            at = self._clock()
            if not await self._writer.persist(partial(_begin, job=job.id, files=files, at=at)):
                return True
            created = await provider.create(job.id, files, content)
            await self._found(job, created)
            report.sent += len(content)
            return True
        except _REFUSED as error:
            full = isinstance(error, RateLimitedError)
            await self._not_taken(job, error.code, job.tokens // 2 if full else None, report)
            return False
        finally:
            self._sending.discard(job.id)

    async def _found(self, job: BatchJob, batch: ProviderBatch) -> None:
        files = {**job.files, **batch.files}
        await self._writer.persist(
            lambda connection: Jobs(connection).change_if(
                job.id, "sending", state="out", provider_id=batch.id, files=files
            )
        )
        stored = self._read(lambda connection: Jobs(connection).get(job.id))
        if stored is not None and stored.cancelled and stored.state == "out":
            await self._pool[job.model].batches.cancel(batch.id)  # somebody did while it was being sent

    async def _back(
        self, job: BatchJob, batch: ProviderBatch, provider: BatchProvider, report: DeskReport
    ) -> None:
        files = {**job.files, **batch.files}
        await self._writer.persist(lambda connection: Jobs(connection).change(job.id, files=files))
        if batch.refusal is not None:
            limit = (batch.token_limit or job.tokens // 2) if batch.full else None
            await self._not_taken(job, batch.refusal, limit, report)
            return
        await self._settlement.settle(job, batch, provider, self._lines(job))
        report.settled += 1
        await self._close(self._read(lambda connection: Jobs(connection).get(job.id)) or job, provider)

    async def _close(self, job: BatchJob, provider: BatchProvider) -> None:
        """Delete what the provider keeps of a settled job."""
        await provider.delete(job.provider_id, job.files)
        await self._writer.persist(
            lambda connection: Jobs(connection).change_if(job.id, "ended", state="closed")
        )

    async def _refuse(self, job: BatchJob, code: str) -> None:
        """The provider took no line: let all of them be wanted again, and their money be free."""
        await self._settlement.give_back(job, self._lines(job), code)
        at = self._clock()
        await self._writer.persist(
            lambda connection: Jobs(connection).change(job.id, state="refused", code=code, ended_at=at)
        )
        stored = self._read(lambda connection: Jobs(connection).get(job.id)) or job
        try:  # the prompts that were uploaded for it are of no use to anybody
            await self._pool[job.model].batches.delete(stored.provider_id, stored.files)
        except ModelError as error:
            _log.warning("batch_files_not_deleted", model=job.model, code=error.code)

    async def _not_taken(self, job: BatchJob, code: str, limit: int | None, report: DeskReport) -> None:
        """Give up a job that the provider refused as a whole; if for its size, smaller ones are sent then."""
        await self._refuse(job, code)
        if limit is not None:
            tokens = max(min(limit, job.tokens - 1), 1)
            await self._writer.persist(lambda connection: Jobs(connection).change(job.id, token_limit=tokens))
            report.full |= {job.model} if job.lines == 1 else set()
        else:
            self._refused[job.model] = code
            report.problems.append(f"{job.model} takes no batch: {code}")

    async def _leased(self, job: BatchJob) -> bool:
        return job.id not in self._sending and await self._writer.persist(
            lambda connection: Jobs(connection).lease(job.id, self._owner, self._lease)
        )

    def _lines(self, job: BatchJob) -> Mapping[str, Sequence[BatchLine]]:
        """Custom id → the lines of a request, for the lines of a job that are out."""
        found: dict[str, list[BatchLine]] = {}
        after = ""

        def read(connection: Connection) -> list[BatchLine]:
            return Lines(connection).out_with(job.id, AT_ONCE, after)

        while some := self._read(read):
            after = some[-1].key
            for line in some:
                found.setdefault(f"{job.id}-{line.lead[:31]}", []).append(line)
        return found

    def _read(self, function: Any) -> Any:
        with self._ledger.read() as connection:
            return function(connection)


def _begin(connection: Connection, *, job: str, files: Mapping[str, str], at: float) -> bool:
    """Note that from now on the provider may have the job; whether it is still to be sent."""
    jobs = Jobs(connection)
    stored = jobs.get(job)
    if stored is None or stored.state not in ("filling", "sending"):
        return False
    first = stored.sent_at or at
    jobs.change(job, state="sending", files=dict(files), sent_at=first, due_at=at + WINDOW)
    return True
