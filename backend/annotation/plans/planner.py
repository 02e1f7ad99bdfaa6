"""What a policy observes of a task's questions before it plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from backend.annotation.job import Job, JobQuestion
from backend.annotation.plans.contexts import Contexts
from backend.annotation.student_votes import StudentReply
from backend.learning.background_fits import BackgroundFits, Students
from backend.learning.states import StateKey, States
from camvo.policies.estimates import Observation
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.student.taught_texts import STUDENT


class Planner:
    """Plans with the current states. Used from one event loop only."""

    def __init__(self, states: States, background_fits: BackgroundFits, students: Students) -> None:
        self._states, self._background_fits, self._students = states, background_fits, students

    async def plan(
        self,
        job: Job,
        questions: Sequence[JobQuestion],
        contexts: Contexts,
        policy: Policy,
        costs: Mapping[str, float],
    ) -> tuple[Plan, StudentReply | None]:
        """The policy's plan for several questions of a task.

        Args:
            job: the task.
            questions: the questions.
            contexts: the questions' contexts, which are embedded only if the plan reads them.
            policy: the project's policy.
            costs: the expected price in $ of each model that may be asked.

        Returns:
            The plan, and what the student says; ``None`` if there is no student.
        """
        student = StudentReply() if job.settings.has_student(policy) else None
        if student is not None:
            costs = {**costs, STUDENT: 0.0}
        observations = {}
        for question in questions:
            reads = policy.reads_context(question.aggregation)
            context = await contexts.of(question) if reads else contexts.so_far(question)
            key = StateKey(job.project, question.key.control, question.key.epoch)
            state = await self._states.current(
                key,
                dimension=context.shape[0],
                lambda_l=job.settings.policy.lambda_l,
                linear=policy.linear(question.aggregation),
            )
            if student is not None:
                student.hear(self._students, key, state, question)
            observation = Observation(
                state, context, question.question.options, question.aggregation, task=_task_name(question)
            )
            if (data := policy.fit_data(observation, costs)) is not None:
                fit = await self._background_fits.current(key, data)
                context = await contexts.of(question) if fit.reads_context else context
                observation = replace(observation, fit=fit, context=context)
            observations[question.name] = observation
        return policy.plan(observations, costs), student


def _task_name(question: JobQuestion) -> str:
    """What tells the task from others in the exploration draw: the same in every process."""
    return f"{question.key.project}:{question.key.task}:{question.key.control}:{question.key.question}"
