"""One task's way from a job to a prediction: embed, plan, ask, decide, record."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.annotation.asking import Asking, Voters, compared
from backend.annotation.batch_stage import BatchStages
from backend.annotation.job import Contexts, EmbeddedContexts, Job, JobQuestion, TaskPrompt
from backend.annotation.job_questions import HeldRounds, JobQuestions, skip_questions
from backend.annotation.planner import Allowances, Openings, Planned, Planner, Terms
from backend.annotation.replies import Bill, Replies, no_vote_error
from backend.errors import BatchPendingError, LedgerError, NoVoteError, TaskDeletedError, TaskError
from backend.label_studio.predictions import Prediction, model_predictions, prediction_of
from backend.learning.label_schemes import LabelSchemes
from backend.learning.states import Scorers
from backend.learning.teaching import (
    NewRound,
    confirmation,
    correct_rewards,
    human_label,
    store_rounds,
    teacher,
)
from backend.ledger import LedgerAccess, human_annotations, projects, recounts, rounds
from backend.ledger import answers as pack_checks
from backend.ledger.batches import Lines, WaitingTasks
from backend.ledger.database.writer import GroupedReads, GroupedWrite
from backend.ledger.human_annotations import Annotation
from backend.ledger.projects import FailedTasks
from backend.ledger.recounts import FurtherVote, FurtherVotes
from backend.ledger.rounds import Round, RoundKey
from backend.questions.question import policy_for, questions_to_ask
from backend.telemetry import metrics, tracing
from camvo.numerics.small import is_known
from camvo.policies.joint import Joint
from camvo.policies.policy import Conditions, Plan
from camvo.stages.stages import on_question
from camvo.state.contribution import Contribution
from camvo.student import STUDENT, StudiedText
from camvo.twins import not_voted
from camvo.votes import registry
from camvo.votes.aggregation import Decision
from camvo.votes.labels import LABEL_VOTE

_log = structlog.get_logger(__name__)


class Annotator:
    """Turns jobs into predictions. Used from one event loop only."""

    def __init__(
        self,
        *,
        access: LedgerAccess,
        questions: JobQuestions,
        planner: Planner,
        voters: Voters,
        batch_stages: BatchStages,
        scorers: Scorers,
        schemes: LabelSchemes,
    ) -> None:
        self._access, self._stored = access, GroupedReads(access, _look_up)
        self._questions, self._schemes, self._batch_stages = questions, schemes, batch_stages
        self._openings, self._held = Openings(), HeldRounds(access, questions)
        self._allowances = Allowances(access)
        self._planner, self._voters, self._scorers = planner, voters, scorers

    async def annotate(self, job: Job, *, alone: bool = False) -> Prediction | None:
        """The prediction for one task in Label Studio's form.

        Questions that already have a round are looked up and teach nothing again. They have the label and
        score of their latest counting. With ``show_votes`` the
        result is a list: a prediction for each model that voted, then the ensemble's.

        Args:
            job: the task.
            alone: whether the task is the only one of its request. Somebody may have opened it, so all its
                models are asked at once.

        Returns:
            The prediction; ``None`` if the task is kept blind for an audit, or has no stored round where only
            those count.

        Raises:
            TaskError: a question has no label; says why, and holds the prediction of the others.
        """
        try:
            with self._voters.preparing(alone=alone):
                return await self._annotate(job, alone)
        except BatchPendingError:
            raise  # the task has not failed: it waits
        except TaskError as error:
            failure = error  # Python unbinds ``error`` after this block, perhaps before the writer's turn
            if not job.stored_only:
                now = self._access.clock()
                await self._note(lambda connection: _record_failure(connection, job, failure, now))
            raise

    async def _annotate(self, job: Job, alone: bool) -> Prediction | None:
        if not self._questions.embedder.loaded:
            await self._access.in_thread(self._questions.embedder.load)
        config = await self._schemes.settled(job.project, job.config, job.settings)
        if config is not job.config:
            job = replace(job, config=config, questions=())
        with_texts = partial(self._questions.with_texts, job)
        questions = job.questions
        if not questions:  # a redactor may be slow, so it runs in a thread
            questions = await self._access.in_thread(with_texts) if job.settings.redact else with_texts()
        keys = tuple(question.key for question in questions)
        studies = job.settings.student is not False and not job.stored_only
        known = await self._stored.read(_LookUp(job.project, job.task, keys, job.audit, studies))
        finished = known.rounds
        if job.stored_only:
            return self._prediction(job, questions, finished)
        if known.deleted:
            raise TaskDeletedError("the task was deleted", where=f"task {job.task}")
        finished |= await self._held.kept(job, questions, finished)
        try:
            await self._decide(job, questions, known, alone=alone)
        except (BatchPendingError, TaskDeletedError):
            raise
        except TaskError as error:
            error.partial = self._prediction(job, questions, finished)
            raise
        if known.failed:
            await self._note(lambda connection: FailedTasks(connection, job.project).forget([job.task]))
        return self._prediction(job, questions, finished)

    async def _decide(
        self, job: Job, questions: Sequence[JobQuestion], known: _Known, *, alone: bool
    ) -> None:
        """Decide the questions that have no round yet, and add their rounds.

        A question under a condition is asked once the questions that it depends on are decided, and only if
        annotators then see it. The others are asked together.
        """
        askable = list(questions)
        while asked := _ready(askable, known.rounds):
            visible, errors = await self._questions.with_images(job, asked)
            skip_questions(job, errors, all_fail=not known.rounds and not visible)
            names = {question.name for question in asked} - {question.name for question in visible}
            askable = [question for question in askable if question.name not in names]
            if visible:
                await self._run_rounds(job, visible, known, alone=alone)

    def _prediction(
        self, job: Job, questions: Sequence[JobQuestion], finished: Mapping[RoundKey, Round]
    ) -> Prediction | None:
        """The prediction of the decided questions; ``None`` if the task is blind or none is decided.

        It is blind as its rounds are: ``audit`` may have been changed since.
        """
        if not finished or any(round_.audit for round_ in finished.values()):
            return None
        decided = [(question, finished[question.key]) for question in questions if question.key in finished]
        prediction = prediction_of(decided, job.settings.model_version, job.settings.prefill)
        if not job.settings.show_votes:
            return prediction
        return [*model_predictions(decided, job.settings.model_version), prediction]

    async def _note(self, change: Callable[[Connection], None]) -> None:
        """Change the list of failed tasks. If that fails, the list is out of date, but the task is done."""
        try:
            await self._access.writer.run(change)
        except LedgerError as error:
            _log.error("failed_tasks_not_updated", code=error.code, reason=str(error))

    async def _run_rounds(
        self, job: Job, questions: Sequence[JobQuestion], known: _Known, *, alone: bool
    ) -> None:
        """Plan, ask, decide and record the questions that have no round yet, and add their rounds."""
        contexts = EmbeddedContexts(self._questions.embedder)
        prompt = await self._questions.prompt(job, questions, contexts, alone=alone)
        asking = await self._asking(job, questions, prompt, known)
        with tracing.span(tracing.PLAN) as span:
            planned = await self._planned(job, questions, contexts, asking, known)
            span.note(policy=job.settings.policy.name, first=planned.plan.subset)
        planned_at = self._access.clock()
        if holds_contexts := _holds_contexts(job, questions, contexts, planned.plan):
            texts = [question.context for question in questions]
            self._questions.embedder.expect(texts, soon=job.hurried)
        with self._openings.asking(job.project, planned.plan):
            replies = await asking.ask(planned.policy, planned.plan, planned.known)
            decisions = await planned.decisions(replies)
            undecided = [question.name for question in questions if question.name not in decisions]
            if not decisions:
                asking.failed()
                raise no_vote_error(job, replies, undecided if known.rounds else ())
            if holds_contexts:
                planned = replace(planned, plan=await _with_contexts(planned.plan, job, questions, contexts))
            task = _FinishedTask(
                job=job,
                questions=questions,
                prompt=prompt,
                planned=planned,
                replies=replies,
                decisions=decisions,
                scores=await self._scores(job, questions, planned.plan, replies.votes, decisions),
                studied=planned.studied(replies),
                planned_at=planned_at,
                now=self._access.clock(),
                blind=known.blind,
            )
            stored, new = await self._access.writer.persist(GroupedWrite(_record_rounds, task))
            _count_rounds(new)
            asking.ended()
            known.rounds.update({round_.key: round_ for round_ in [*stored, *new]})
        if undecided:
            raise no_vote_error(job, replies, undecided)

    async def _asking(
        self, job: Job, questions: Sequence[JobQuestion], prompt: TaskPrompt, known: _Known
    ) -> Asking:
        """The way in which models are asked: all of them at once, or some of them in providers' batches."""
        if job.batching is not None:
            return await self._batch_stages.begin(job, job.batching, questions, prompt)
        if known.in_batch:
            await self._batch_stages.refuse_waiting(job, questions)
        return Asking(self._voters, job, prompt)

    async def _planned(
        self, job: Job, questions: Sequence[JobQuestion], contexts: Contexts, asking: Asking, known: _Known
    ) -> Planned:
        """The plan; made again once the first rounds of the project have ended, if awaited.

        Meanwhile models have answered for the first time, which changes prices. All waits together are
        bounded: a task has a deadline.
        """
        held = job.batching is None and not asking.prompt.alone
        until = asyncio.get_running_loop().time() + self._openings.patience
        while True:
            terms = await self._terms(job, questions, asking, known)
            ended = self._openings.ended[job.project]
            planned = await self._planner.plan(job, questions, contexts, terms)
            if not (held and self._openings.is_full(job.project, planned.plan, ended)):
                return replace(planned, plan=asking.fixed(planned.plan))
            with self._voters.waiting(asking.prompt):
                held = await self._openings.wait(job.project, until)

    async def _terms(
        self, job: Job, questions: Sequence[JobQuestion], asking: Asking, known: _Known
    ) -> Terms:
        """The policy, the price of each arm that it may ask, and the task's conditions."""
        names = [question.name for question in questions]
        policy = policy_for(job.settings.policy, job.config.questions, names)
        policy, costs = await asking.offered(policy)
        allowance = await self._allowances.allowance(policy, job, costs)
        waits = self._voters.waits(job, costs)
        conditions = Conditions(everyone=job.everyone, allowance=allowance, waits=waits)
        again = frozenset(question.name for question in questions if question.key in known.again)
        return Terms(policy, costs, asking.limit(conditions), again)

    async def _scores(
        self,
        job: Job,
        questions: Sequence[JobQuestion],
        plan: Plan,
        votes: Mapping[str, Mapping[str, str]],
        decisions: Mapping[str, Decision],
    ) -> dict[str, float]:
        """The calibrated score of each decided question whose votes are single labels, by question.

        Empty if ``calibrate`` is off. The scores are stored with the rounds: they are computed before any
        human sees the prediction, and later fits do not change them.
        """
        scores: dict[str, float] = {}
        if not job.settings.calibrate:
            return scores
        for question in questions:
            name, estimates = question.name, plan.estimates[question.name]
            if name not in decisions or estimates.aggregation != LABEL_VOTE:
                continue
            votes_cast = {arm: votes[arm][name] for arm in plan.arms if name in votes.get(arm, {})}
            if not votes_cast:
                continue
            scorer = await self._scorers.current(question.state_key, plan.arms, estimates.labels)
            scores[name] = scorer.score_decision(votes_cast, decisions[name])
        return scores


def _holds_contexts(job: Job, questions: Sequence[JobQuestion], contexts: Contexts, plan: Plan) -> bool:
    """Whether the round is to hold the contexts of its questions.

    It is if people may review the round, if it asks every model, or if it is planned by the contexts.
    """
    explores = plan.stages is None or plan.stages.exploration == "everyone"
    return job.review or explores or any(map(is_known, map(contexts.so_far, questions)))


async def _with_contexts(
    plan: Plan, job: Job, questions: Sequence[JobQuestion], contexts: EmbeddedContexts
) -> Plan:
    """The plan with the contexts of its questions, for the rounds to hold."""
    embedded = await asyncio.gather(*(contexts.of(question, soon=job.hurried) for question in questions))
    names = (question.name for question in questions)
    return plan.with_contexts(dict(zip(names, embedded, strict=True)))


def _ready(questions: Sequence[JobQuestion], rounds: Mapping[RoundKey, Round]) -> list[JobQuestion]:
    """The questions without a round that annotators see, by those with one."""
    labels = {question.name: rounds[question.key].label for question in questions if question.key in rounds}
    if len(labels) == len(questions):
        return []
    ready = questions_to_ask([question.config for question in questions], labels)
    return [question for question in questions if question.name in ready]


@dataclass(frozen=True, slots=True)
class _LookUp:
    """A task to look up."""

    project: str
    task: int
    keys: Sequence[RoundKey]
    audit: bool
    studies: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """What the ledger knows of a task.

    Attributes:
        rounds: the stored rounds of its questions, by their latest counting.
        failed: whether it failed the last time.
        blind: whether it is kept blind: chance chose it, and no prediction of it was ever handed out.
        in_batch: whether a provider's batch has answers about it.
        again: the rounds that it lacks because labels changed, where a student may vote.
        deleted: whether Label Studio has deleted it.
    """

    rounds: dict[RoundKey, Round]
    failed: bool
    blind: bool
    in_batch: bool
    again: Set[RoundKey] = frozenset()
    deleted: bool = False


def _look_up(connection: Connection, wanted: Sequence[_LookUp]) -> list[_Known]:
    """Return what the ledger knows of each task."""
    found = rounds.find_by_key(connection, [key for each in wanted for key in each.keys])
    stored = recounts.with_latest(connection, found)
    tasks = [(each.project, each.task) for each in wanted]
    failed, deleted = projects.failed_among(connection, tasks), projects.deleted_among(connection, tasks)
    shown = rounds.shown_among(connection, [(each.project, each.task) for each in wanted if each.audit])
    open_keys = (key for each in wanted if each.studies for key in each.keys if key not in stored)
    again = rounds.asked_before_labels_changed(connection, [*open_keys])
    undecided = [(each.project, each.task) for each in wanted if not stored.keys() >= {*each.keys}]
    in_batch = Lines(connection).out_among(undecided)
    return [
        _Known(
            {key: stored[key] for key in each.keys if key in stored},
            failed=(each.project, each.task) in failed,
            blind=each.audit and (each.project, each.task) not in shown,
            in_batch=(each.project, each.task) in in_batch,
            again=again.intersection(each.keys),
            deleted=(each.project, each.task) in deleted,
        )
        for each in wanted
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _FinishedTask:
    """A task that models have voted on: the votes, and how they were decided.

    Attributes:
        job: the task.
        questions: the questions that models were asked about.
        prompt: what the models were shown.
        planned: its plan.
        replies: what the models replied.
        decisions: by question, for the questions that got a vote.
        scores: the calibrated score by question, for questions whose policy score was calibrated.
        studied: question → its text, which teaches the student.
        planned_at: when it was decided whom to ask, unix seconds.
        now: unix seconds.
        blind: whether the task is kept blind.
    """

    job: Job
    questions: Sequence[JobQuestion]
    prompt: TaskPrompt
    planned: Planned
    replies: Replies
    decisions: Mapping[str, Decision]
    scores: Mapping[str, float]
    studied: Mapping[str, StudiedText]
    planned_at: float
    now: float
    blind: bool

    @property
    def task(self) -> tuple[str, int]:
        """The task's project and number."""
        return self.job.project, self.job.task

    def describe(self, question: str) -> dict[str, Any]:
        """The JSON that a round stores: the plan, the aggregation and the policy's own score.

        The trust in that score, the scores of labels with a recall, the confidences, the label for the
        student's text and the examples are in it if there are any.
        """
        policy, plan, decision = self.planned.policy, self.planned.plan, self.decisions[question]
        description: dict[str, Any] = {
            "aggregation": registry.describe_aggregation(plan.estimates[question].aggregation),
            "score": decision.score,
        }
        if decision.trust:
            description["trust"] = decision.trust
        if isinstance(policy, Joint) and (likely := policy.likely(decision.posterior)):
            description["likely"] = likely
        if sure := on_question(self.replies.confidences, question):
            description["confidences"] = sure
        if versions := self.replies.versions:
            description["versions"] = versions
        if question in self.studied:
            description["studied"] = self.studied[question].to_list()
        if self.prompt.tasks:
            description["examples"] = list(self.prompt.tasks)
        return plan.describe(question) | description


def _record_rounds(
    connection: Connection, finished: Sequence[_FinishedTask]
) -> list[tuple[list[Round], list[Round]]]:
    """Store the rounds of the decided questions of different tasks, and what they teach.

    A round that is stored already, by another process or by this one before its connection broke, is
    unchanged. So a repetition stores nothing and teaches nothing. Votes that it lacks, since two processes
    asked about the task at once, become further votes of it: they are paid for.
    """
    tasks = [each.task for each in finished]
    for _, task in sorted(projects.deleted_among(connection, tasks)):
        raise TaskDeletedError("the task was deleted", where=f"task {task}")
    keys = [question.key for each in finished for question in each.questions]
    stored = rounds.find_by_key(connection, keys)
    people = human_annotations.of_tasks(connection, tasks)
    chosen = rounds.asked_before_labels_changed(connection, [key for key in keys if key not in stored])
    new = [_new_rounds(connection, each, stored.keys(), people[each.task], chosen) for each in finished]
    store_rounds(connection, [round_ for of_task in new for round_ in of_task], finished[0].now)
    kept = [[stored[q.key] for q in each.questions if q.key in stored] for each in finished]
    for each, earlier in zip(finished, kept, strict=True):
        _keep_beside(connection, each, earlier)
    WaitingTasks(connection).forget(tasks)
    return [(earlier, [added.round for added in of_task]) for earlier, of_task in zip(kept, new, strict=True)]


def _keep_beside(connection: Connection, finished: _FinishedTask, stored: Sequence[Round]) -> None:
    """Keep the votes that a task's stored rounds lack; without those of an arm whose twin has voted there."""
    names = {question.key: question.name for question in finished.questions}
    further = [
        FurtherVote(
            round_id=round_.id,
            model=arm,
            task=round_.key.task,
            vote=reply.votes.get(names[round_.key]),
            confidence=reply.confidences.get(names[round_.key]),
            cost_usd=(reply.cost + reply.earlier) / len(finished.decisions),
            purpose="beside",
            created_at=finished.now,
        )
        for round_ in stored
        if names[round_.key] in finished.decisions
        for arm, reply in not_voted(finished.replies.arms, round_.votes).items()
        if arm not in {*round_.votes, STUDENT} and (reply.votes or reply.cost + reply.earlier > 0.0)
    ]
    if further:
        project, task = finished.task
        FurtherVotes(connection, project).store(further)
        correct_rewards(connection, project, task, finished.job.settings, finished.now)


def _new_rounds(
    connection: Connection,
    finished: _FinishedTask,
    stored: Set[RoundKey],
    people: Sequence[Annotation],
    chosen: Set[RoundKey],
) -> list[NewRound]:
    replies = finished.replies
    packs = compared(finished.job, finished.planned.plan, {**replies.beside, **replies.arms})
    bill = replies.bill(finished.planned.plan)
    new = [
        _finished_round(connection, finished, bill, question, people, packs=packs.get(question.name, {}))
        for question in finished.questions
        if question.key not in stored and question.name in finished.decisions
    ]
    return [_of_chosen(each) if each.round.key in chosen else each for each in new]


def _of_chosen(new: NewRound) -> NewRound:
    """The round of a task that was not drawn at random, so that it says nothing of a change."""
    explored = new.contribution.exploration
    if explored is None:
        return new
    marked = replace(explored, chosen=True)
    return replace(new, contribution=replace(new.contribution, exploration=marked))


_LONGEST_LABEL: Final = 100


def _count_rounds(new: Sequence[Round]) -> None:
    """Count new rounds, and the models that they asked, in the metrics."""
    for round_ in new:
        labels = {"project": round_.key.project, "control": _label_value(round_.key.control)}
        metrics.rounds.labels(**labels).inc()
        metrics.models_asked.labels(**labels).inc(len(round_.votes.keys() - {STUDENT}))


def _label_value(name: str) -> str:
    """A name of a project's own as a metric's label: a long one is cut, and ends with its hash."""
    if len(name) <= _LONGEST_LABEL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_LABEL - 9]}…{digest}"


def _record_failure(connection: Connection, job: Job, error: TaskError, now: float) -> None:
    """Record that the task ended without a prediction, unless it was deleted meanwhile."""
    if not projects.is_deleted(connection, job.project, job.task):
        projects.ensure(connection, job.project, now)
        FailedTasks(connection, job.project).record(job.task, error.code, now, job.file)
        if isinstance(error, NoVoteError):
            WaitingTasks(connection).forget([(job.project, job.task)])


def _finished_round(
    connection: Connection,
    finished: _FinishedTask,
    bill: Bill,
    question: JobQuestion,
    people: Sequence[Annotation],
    *,
    packs: Mapping[str, bool],
) -> NewRound:
    """One round and what it teaches. The task's cost is shared equally among its decided questions."""
    job, plan, decision = finished.job, finished.planned.plan, finished.decisions[question.name]
    votes, parts, described = (
        finished.replies.votes,
        len(finished.decisions),
        finished.describe(question.name),
    )
    human = human_label(connection, question.key, described, people)
    label, taught_by = teacher(decision.label, human, job.settings, blind=finished.blind)
    studied = finished.studied.get(question.name)
    round_ = Round(
        key=question.key,
        plan=described,
        votes={arm: answers.get(question.name) for arm, answers in votes.items()},
        label=decision.label,
        score=finished.scores.get(question.name, decision.score),
        cost_usd=bill.paid / parts,
        full_cost_usd=bill.full / parts,
        bounded_usd=bill.bounded / parts,
        reused=len(bill.reused) / parts,
        reused_usd=sum(bill.reused) / parts,
        audit=finished.blind,
        audited=job.settings.audit > 0.0,
        taught=label,
        taught_by=taught_by,
        context=plan.estimates[question.name].context,
        created_at=finished.now,
        planned_at=finished.planned_at,
        text=b"" if studied is None else studied.ngrams,
        human=human,
        confirmed=confirmation(decision.label, human, described),
        missing=finished.replies.missing(plan.arms) or None,
    )
    for arm, agreed in packs.items():
        pack_checks.record_pack_checks(connection, question.key, arm, agreed=agreed, now=finished.now)
    lesson = _lesson(finished, question.name, label, human=taught_by == "human")
    shown = {arm: count for arm, count in finished.prompt.shown.items() if arm in votes}
    return NewRound(round_, lesson, shown, finished.replies.failures(question.name))


def _lesson(finished: _FinishedTask, question: str, label: str, *, human: bool) -> Contribution:
    """What a round teaches by a label, which is a human's or the voted one."""
    planned, replies = finished.planned, finished.replies
    lesson = planned.policy.contribution(
        planned.plan, question, replies.votes, label, human=human, confidences=replies.confidences
    )
    studied = finished.studied.get(question)
    taught = None if studied is None else studied.lesson(label if human else None)
    return replace(lesson, versions=replies.versions, taught=taught)
