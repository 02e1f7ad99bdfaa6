"""What a person can do next for better labels, the most useful first."""

from __future__ import annotations

from collections.abc import Iterator

from backend.server.status.formats import of, share_of_hundred
from backend.server.status.parts.certify import CertifyReport
from backend.server.status.parts.commands import commands_of
from backend.server.status.parts.estimate import LEAST
from backend.server.status.report import NextStep, ProjectReport, QuestionReport


def next_steps(project: ProjectReport) -> tuple[NextStep, ...]:
    """List what to do next; the last resort says that nothing is left to do."""
    steps = [*_predict(project), *_check(project), *_improve(project)]
    if not steps:
        steps = [NextStep("nothing", "Nothing: no label is in doubt that people could settle now")]
    return tuple(steps)


def task_url(project: ProjectReport, task: int | None = None) -> str | None:
    """The address of a project's tasks, or of one, in Label Studio; ``None`` if it is unknown."""
    if project.url is None:
        return None
    return project.url if task is None else f"{project.url}?task={task}"


def _predict(project: ProjectReport) -> Iterator[NextStep]:
    failed = sum(reason.tasks for reason in project.failed if not reason.final)
    if failed:
        command = commands_of(project.key).failed
        yield NextStep("failed_tasks", f"Ask again about {of(failed, 'task')} without a label", None, command)
    progress = project.progress
    if not project.rounds:
        if not failed:
            text = "Import tasks, if there are none, and let models label them"
            yield NextStep("predict", text, task_url(project), commands_of(project.key).predict)
        return
    if progress.tasks is None:
        return
    open_ = progress.tasks - progress.predicted - sum(reason.tasks for reason in project.failed)
    if open_ > 0:
        text = f"Let models label the other {of(open_, 'task')}"
        yield NextStep("predict", text, None, commands_of(project.key).predict)


def _check(project: ProjectReport) -> Iterator[NextStep]:
    """Labels by people that show how right the others are."""
    current = [question for question in project.questions if question.current]
    for question in current:
        yield from _certify(project, question)
    checked = sum(question.audit.count + question.reviewed.count for question in current)
    blind = any(_has_blind_tasks(question) for question in current)
    if project.rounds and checked < LEAST and not blind:
        text = f"Label {LEAST - checked} tasks yourself: they show whether the scores keep their word"
        yield NextStep("first_labels", text, task_url(project), f"camvo review --project {project.id} --tab")


def _certify(project: ProjectReport, question: QuestionReport) -> Iterator[NextStep]:
    certify = question.certify
    if certify is None or certify.needed == 0 or question.guarantee.threshold is not None:
        return
    name = _name(project, question)
    right = f"{share_of_hundred(certify.target)}{name}"
    if certify.needed is None:
        text = (
            f"No number of blind labels is expected to certify {right}: too many labels are wrong. Label "
            "doubtful tasks, or ask better models"
        )
        yield NextStep("not_certifiable", text, None, f"camvo review --project {project.id} --tab")
    elif certify.needed <= certify.waiting:
        text = f"Label {of(certify.needed, 'more blind task')} to certify {right}"
        command = f"camvo review --project {project.id} --tab"
        yield NextStep("blind_labels", text, task_url(project, certify.next_task), command)
    else:
        yield _more_blind(project, question, certify, right)


def _more_blind(
    project: ProjectReport, question: QuestionReport, certify: CertifyReport, right: str
) -> NextStep:
    """Too few blind tasks wait for a label: label those, or keep more tasks blind."""
    needed = f"about {of(certify.needed or 0, 'further blind label')} would certify {right}"
    if certify.waiting:
        text = f"Label the {of(certify.waiting, 'blind task')}: they show how many labels are right; {needed}"
        command = f"camvo review --project {project.id} --tab"
        return NextStep("blind_labels", text, task_url(project, certify.next_task), command)
    void = question.guarantee.void
    why = f"the {of(void, 'blind label')} so far were given before votes were counted again" if void else ""
    text = f"Keep more of the next tasks blind (audit in camvo.yaml): {needed}, and none waits"
    return NextStep("more_blind", f"{text}; {why}" if why else text, task_url(project))


def _has_blind_tasks(question: QuestionReport) -> bool:
    return bool(question.guarantee.blind or question.guarantee.void)


def _improve(project: ProjectReport) -> Iterator[NextStep]:
    for question in (question for question in project.questions if question.current):
        name = _name(project, question)
        if question.questionable is not None and question.questionable.certain:
            text = f"Look again at {of(question.questionable.certain, 'questionable label')}{name}"
            first = question.questionable.listed[0].task
            yield NextStep("questionable_labels", text, task_url(project, first))
        if question.votes is not None and question.votes.families:
            family = " and ".join(question.votes.families[0])
            text = f"{family} agree too much{name}: replace one of them in camvo.yaml by a different model"
            yield NextStep("related_models", text)
        if project.rounds and not _has_blind_tasks(question):
            text = f"Keep some tasks blind{name}: set audit: 0.1 in camvo.yaml. Only blind labels certify"
            yield NextStep("keep_blind", text)


def _name(project: ProjectReport, question: QuestionReport) -> str:
    """The question's name, if the project has several."""
    several = sum(other.current for other in project.questions) > 1
    return f" ({question.control})" if several else ""
