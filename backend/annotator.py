"""One task's way: embed → plan → ask → decide → record → prediction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from backend import metrics, prompts
from backend.embedding import Embedder
from backend.epoch import epoch_of, question_hash
from backend.examples import Examples
from backend.exemplary import label_texts
from backend.images import Images
from backend.labels import Question, TaskQuestion
from backend.ledger import Ledger, Writer, rounds
from backend.ledger.rounds import Round, RoundKey
from backend.llms import Pool
from backend.llms.parts import Messages, images
from backend.policies import policy_of
from backend.prediction import Prediction, prediction_of, votes_of
from backend.queries import Queries, Query
from backend.recording import Asked, Job, Verdict, record
from backend.scores import Scores
from backend.states import StateKey, States
from backend.studies import Studies
from camvo.aggregation import LABEL_VOTE
from camvo.errors import BadAnswerError, ImageUnavailableError, ModelError, NoVoteError, TaskError
from camvo.estimates import Observation
from camvo.plan import Decision, Plan
from camvo.policy import Policy
from camvo.typing import Array

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """What models are sent about a task, and the questions that their answers are read for.

    ``shown`` says of each model how many examples it gets, where there are any.
    """

    questions: Sequence[TaskQuestion]
    messages: Messages
    schema: Mapping[str, Any]
    examples: Messages = ()
    tasks: Sequence[int] = ()
    shown: Mapping[str, int] = field(default_factory=dict)

    def to(self, arm: str) -> Messages:
        """The messages for one model."""
        return self.examples if self.shown.get(arm) else self.messages


class Annotator:
    """Turns jobs into predictions. Everything here runs on the process's one event loop."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        readers: Executor,
        states: States,
        queries: Queries,
        pool: Pool,
        embedder: Embedder,
        images: Images,
        scores: Scores,
        studies: Studies,
        examples: Examples,
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._writer, self._readers = ledger, writer, readers
        self._states, self._queries, self._pool, self._embedder = states, queries, pool, embedder
        self._images, self._scores, self._clock = images, scores, clock
        self._studies, self._examples = studies, examples

    async def annotate(self, job: Job, *, alone: bool = False) -> Prediction | None:
        """The prediction for one task in Label Studio's form; ``None`` for a task kept blind for an audit.

        With ``show_votes`` a list: the prediction, then one for each model that voted.

        A task that was annotated before is looked up and teaches nothing again. ``alone`` is a task that came
        by itself: somebody may have opened it, so its models are asked at once.

        Raises:
            TaskError: no prediction is possible; says why.
        """
        if not self._embedder.loaded:
            await asyncio.get_running_loop().run_in_executor(self._readers, self._embedder.load)
        asked = self._questions(job)
        found = await self._stored([one.key for one in asked])
        open_questions = [one for one in asked if one.key not in found]
        visible, unseen = await self._shown(job, open_questions)
        self._skip(job, unseen, alone=not found and not visible)
        if visible:
            found |= {round_.key: round_ for round_ in await self._annotate(job, visible, alone)}
        if job.audit:
            return None
        decided = [(one.question, found[one.key]) for one in asked if one.key in found]
        prediction = prediction_of(decided, job.settings.model_version)
        if not job.settings.show_votes:
            return prediction
        return [prediction, *votes_of(decided, job.settings.model_version)]

    def _questions(self, job: Job) -> list[Asked]:
        """The questions whose texts are there; one that lacks its own does not cost the others."""
        asked: list[Asked] = []
        lacking: list[TaskError] = []
        for question in job.config.questions:
            try:
                asked.append(self._question(job, question))
            except TaskError as error:
                lacking.append(error)
        self._skip(job, lacking, alone=not asked)
        return asked

    async def _shown(self, job: Job, asked: Sequence[Asked]) -> tuple[list[Asked], list[TaskError]]:
        """The questions whose images (if any) can be shown to a model, and why the others' cannot."""
        visible: list[Asked] = []
        lacking: list[TaskError] = []
        for one in asked:
            try:
                if one.question.images and not self._can_see(job):
                    raise ImageUnavailableError(
                        "no model that may be asked takes images",
                        where=f"control {one.name}",
                        fix="add one that does; vision: true says so where litellm does not know it",
                    )
                visible.append(replace(one, question=await self._images.shown(one.question)))
            except TaskError as error:
                lacking.append(error)
        return visible, lacking

    def _skip(self, job: Job, lacking: Sequence[TaskError], *, alone: bool) -> None:
        """Leave out questions that lack something; an error if they are all that there is."""
        if lacking and alone:
            raise lacking[0]
        for lack in lacking:
            _log.warning("question_skipped", task=job.task, code=lack.code, reason=str(lack))

    def _question(self, job: Job, question: Question) -> Asked:
        about = question.about(job.data)
        key = RoundKey(
            project=job.project,
            task=job.task,
            control=question.name,
            question=question_hash({**about.texts, **about.images}),
            epoch=epoch_of(question, job.settings.instructions, self._embedder.identity),
        )
        return Asked(about, key)

    async def _stored(self, keys: Sequence[RoundKey]) -> dict[RoundKey, Round]:
        def read() -> dict[RoundKey, Round]:
            with self._ledger.read() as connection:
                return rounds.find(connection, keys)

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def _annotate(self, job: Job, asked: Sequence[Asked], alone: bool) -> list[Round]:
        """Plan, ask, decide and record the questions that have no round yet."""
        questions = [one.question for one in asked]
        aggregations = [question.question.control.aggregation for question in questions]
        policy = policy_of(job.settings.policy, aggregations, alone=alone)
        contexts = await asyncio.gather(*(self._embedder.vector(question.context) for question in questions))
        messages = prompts.messages(questions, job.settings.instructions)
        prompt = _Prompt(questions, messages, prompts.schema(questions))
        if job.settings.few_shot and len(asked) == 1:
            prompt = await self._with_examples(job, asked[0], contexts[0], prompt)
        expected = self._costs(job, prompt)
        plan = policy.plan(await self._observe(job, asked, contexts, policy, expected), expected)
        votes: dict[str, dict[str, str]] = {}
        costs: dict[str, float] = {}
        while arms := policy.ask(plan, votes):
            replies = await asyncio.gather(
                *(self._vote(job, arm, prompt) for arm in arms), return_exceptions=True
            )
            for arm, reply in zip(arms, replies, strict=True):
                if isinstance(reply, BaseException):
                    raise reply
                votes[arm], costs[arm] = reply
        decisions = policy.decide(plan, votes)
        if not decisions:
            raise NoVoteError(
                f"none of the {len(votes)} models that were asked gave a valid answer",
                where=f"task {job.task}",
                fix="see camvo_model_calls in /metrics for the reasons",
            )
        scores = await self._calibrated(job, asked, plan, votes, decisions)
        shown = {arm: count for arm, count in prompt.shown.items() if arm in votes}
        verdict = Verdict(policy, plan, votes, decisions, costs, scores, prompt.tasks, shown)
        there, new = await self._writer.run(
            lambda connection: record(connection, job, asked, verdict, self._clock())
        )
        for round_ in new:
            metrics.rounds.labels(project=job.project, control=round_.key.control).inc()
            metrics.asked.labels(project=job.project, control=round_.key.control).inc(len(round_.votes))
        return [*there, *new]

    async def _with_examples(self, job: Job, one: Asked, context: Array, prompt: _Prompt) -> _Prompt:
        """The prompt with the nearest human-labelled tasks, for the models that are to see them."""
        names = label_texts(one.question.question)
        if names is None or one.question.images:
            return prompt
        shelf = await self._examples.shelf(StateKey(job.project, one.key.control, one.key.epoch))
        near = shelf.nearest(one.key, context, job.settings.few_shot)
        if not near:
            return prompt
        examples = [prompts.Example(task.texts, {one.name: names[task.label]}) for task in near]
        return replace(
            prompt,
            examples=prompts.messages(prompt.questions, job.settings.instructions, examples),
            tasks=[task.task for task in near],
            shown={
                model.name: len(near) if shelf.shows(one.key, model.name) else 0
                for model in job.settings.models
            },
        )

    async def _observe(
        self,
        job: Job,
        asked: Sequence[Asked],
        contexts: Sequence[Array],
        policy: Policy,
        costs: Mapping[str, float],
    ) -> dict[str, Observation]:
        observations = {}
        for one, context in zip(asked, contexts, strict=True):
            key = StateKey(job.project, one.key.control, one.key.epoch)
            state = await self._states.current(
                key, dimension=self._embedder.dimension, lambda_l=job.settings.policy.lambda_l
            )
            aggregation = one.question.question.control.aggregation
            seen = Observation(state, context, one.question.options, aggregation)
            if (material := policy.material(seen, costs)) is not None:
                seen = replace(seen, study=await self._studies.current(key, material))
            observations[one.name] = seen
        return observations

    async def _calibrated(
        self,
        job: Job,
        asked: Sequence[Asked],
        plan: Plan,
        votes: Mapping[str, Mapping[str, str]],
        decisions: Mapping[str, Decision],
    ) -> dict[str, float]:
        """The calibrated scores, frozen here: before any human sees the prediction."""
        scores = {}
        for one in asked:
            name, estimates = one.name, plan.estimates[one.name]
            if not job.settings.calibrate or name not in decisions or estimates.aggregation != LABEL_VOTE:
                continue
            key = StateKey(job.project, one.key.control, one.key.epoch)
            scorer = await self._scores.current(key, plan.arms, estimates.labels)
            cast = {arm: answers[name] for arm, answers in votes.items() if name in answers}
            scores[name] = scorer.of(cast, decisions[name])
        return scores

    def _costs(self, job: Job, prompt: _Prompt) -> dict[str, float]:
        """The expected price of each model that is not resting; of all when all are.

        Where there is an image, of those that can see.
        """
        every = [model.name for model in job.settings.models]
        names = self._seeing(job) if images(prompt.messages) else every
        awake = [name for name in names if not self._pool.resting(name)]
        return {name: self._pool.cost(name, prompt.to(name)) for name in awake or names}

    def _can_see(self, job: Job) -> bool:
        """Whether there is a model to show images to; with the policy ``single`` there is only the one."""
        seeing, only = self._seeing(job), job.settings.policy.model
        return bool(seeing) if only is None else only in seeing

    def _seeing(self, job: Job) -> list[str]:
        return [model.name for model in job.settings.models if self._pool.sees(model.name)]

    async def _vote(self, job: Job, arm: str, prompt: _Prompt) -> tuple[dict[str, str], float]:
        """One model's votes by question, empty where it failed, and what asking it cost in $."""
        query = Query(job.project, job.task, arm, prompt.to(arm), prompt.schema, job.settings.budget)
        try:
            reply = await self._queries.ask(query, patience=job.settings.deadline)
        except ModelError as error:
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            return {}, error.usage.cost if error.usage else 0.0
        try:
            votes = prompts.parse(reply.content, prompt.questions)
        except BadAnswerError as error:
            votes = {}
            metrics.votes_missing.labels(model=arm, reason=error.code).inc()
            _log.info("no_vote", model=arm, task=job.task, code=error.code)
        self._pool.judge(arm, usable=bool(votes))
        return votes, reply.cost
