"""One task's way: embed → plan → ask → decide → record → prediction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

import structlog

from backend.annotation.images import Images
from backend.annotation.recording import Asked, Job, Verdict, record
from backend.annotation.voters import Voters
from backend.errors import ImageUnavailableError, NoVoteError, TaskError
from backend.label_studio.prediction import Prediction, prediction_of, votes_of
from backend.learning.scores import Scores
from backend.learning.states import StateKey, States
from backend.learning.studies import Studies
from backend.ledger import Ledger, Writer, rounds
from backend.ledger.rounds import Round, RoundKey
from backend.models.embedder.embedder import Embedder
from backend.questions import ConfigQuestion
from backend.questions.epoch import epoch_of, question_hash
from backend.settings.policies import policy_of
from backend.telemetry import metrics
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.typing import Array
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE

_log = structlog.get_logger(__name__)


class Annotator:
    """Turns jobs into predictions. Everything here runs on the process's one event loop."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        readers: Executor,
        states: States,
        voters: Voters,
        embedder: Embedder,
        images: Images,
        scores: Scores,
        studies: Studies,
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._writer, self._readers = ledger, writer, readers
        self._states, self._voters, self._embedder, self._images = states, voters, embedder, images
        self._scores, self._studies, self._clock = scores, studies, clock

    async def annotate(self, job: Job, *, alone: bool = False) -> Prediction | None:
        """The prediction for one task in Label Studio's form; ``None`` for a task kept blind for an audit.

        With ``show_votes`` a list: one for each model that voted, then the prediction.

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
        return [*votes_of(decided, job.settings.model_version), prediction]

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
                if one.question.images and not self._voters.can_see(job):
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

    def _question(self, job: Job, question: ConfigQuestion) -> Asked:
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
                return rounds.find_by_key(connection, keys)

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)

    async def _annotate(self, job: Job, asked: Sequence[Asked], alone: bool) -> list[Round]:
        """Plan, ask, decide and record the questions that have no round yet."""
        aggregations = [one.question.question.control.aggregation for one in asked]
        policy = policy_of(job.settings.policy, aggregations, alone=alone)
        contexts = await asyncio.gather(*(self._embedder.vector(one.question.context) for one in asked))
        prompt = await self._voters.prompt(job, asked, contexts)
        expected = self._voters.costs(job, prompt)
        plan = policy.plan(await self._observe(job, asked, contexts, policy, expected), expected)
        votes: dict[str, dict[str, str]] = {}
        costs: dict[str, float] = {}
        while arms := policy.ask(plan, votes):
            replies = await asyncio.gather(
                *(self._voters.vote(job, arm, prompt) for arm in arms), return_exceptions=True
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
            metrics.models_asked.labels(project=job.project, control=round_.key.control).inc(
                len(round_.votes)
            )
        return [*there, *new]

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
            scores[name] = scorer.score_decision(cast, decisions[name])
        return scores
