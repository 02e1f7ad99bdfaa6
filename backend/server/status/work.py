"""What a person can do next for better labels, the most useful first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sqlalchemy import Connection

from backend.errors import (
    BudgetExhaustedError,
    EmptyTextError,
    NoUsableAnswerError,
    StoppingError,
    cure_of,
    meaning_of,
)
from backend.ledger import money
from backend.ledger import projects as failed_tasks
from backend.ledger.missing_votes import Mark
from backend.ledger.money import from_picodollars
from backend.ledger.projects import FailedTasks, is_of_label_studio
from backend.ledger.recounts import Recounts
from backend.ledger.reports import ProjectSums
from backend.server.status.formats import named_task, of, percent, share_of_hundred, verb_of
from backend.server.status.promises import LEAST
from backend.server.status.report import (
    Alert,
    CertifyReport,
    FailedTasksReport,
    NextStep,
    ProjectReport,
    QuestionReport,
)
from camvo.numerics.small import clopper_pearson


@dataclass(frozen=True, slots=True)
class Commands:
    """What to run for one project."""

    predict: str
    failed: str
    again: str
    refresh: str
    recount: str
    correct_scores: str


def commands_of(key: str) -> Commands:
    """The commands for a project, by its key in the ledger."""
    if not is_of_label_studio(key):
        return _of_file(f"camvo label … --name {key}")
    predict = f"camvo predict --project {key.partition('.')[0]}"
    return Commands(
        predict=predict,
        failed=f"{predict} --failed",
        again=f"{predict} --again",
        refresh=f"{predict} --refresh",
        recount=f"{predict} --recount",
        correct_scores=f"run {predict} --refresh",
    )


def _of_file(label: str, joint: str = "") -> Commands:
    return Commands(
        predict=label,
        failed=f"{label}{joint} --retry-failed",
        again=f"{label}{joint} --retry-failed",
        refresh=f"{label}{joint} --below 1",
        recount=f"{label}{joint} --recount",
        correct_scores=f"run camvo teach with them, and {label}{joint} --recount",
    )


SAME_COMMAND: Final = _of_file("the same command", " with")
"""What to run where a run of ``camvo label`` has just ended."""


def project_progress(
    connection: Connection, project: str, first: int | None, last: int | None, after: int | None
) -> dict[str, Any]:
    """The body of ``GET /progress``."""
    decided = 0
    sums = ProjectSums(connection, project)
    if after is not None:
        decided = sums.tasks_after(after, first or 0, last)
    account = money.balance(connection, project, money.TOTAL)
    return {
        "tasks": decided,
        "last_round": sums.newest_round(),
        "last_call": Mark.now(connection).call,
        "countings": Recounts(connection, project).latest_number(),
        "spent_usd": from_picodollars(account.spent),
        "reserved_usd": from_picodollars(account.reserved),
    }


_PAGE = 1000
"""The most tasks in one answer of ``GET /failed``."""

_FINAL = {NoUsableAnswerError.code}
"""Reasons that do not pass: asking again calls no model."""


_MORE_UNTRIED = {BudgetExhaustedError.code, StoppingError.code, EmptyTextError.code}
"""Reasons beside which tasks wait that did not fail: those behind a failed one, or rows with new texts."""


def failed_task_reports(connection: Connection, project: str) -> tuple[FailedTasksReport, ...]:
    """The failed tasks of a project by reason, the most frequent first."""
    commands = commands_of(project)
    return tuple(
        FailedTasksReport(code, tasks, final=code in _FINAL, fix=_failure_fix(code, commands))
        for code, tasks in FailedTasks(connection, project).count().items()
    )


def _failure_fix(code: str, commands: Commands) -> str:
    """What to do about the tasks that failed for a reason."""
    if code in _FINAL:
        return f"{cure_of(code)}; {commands.again} makes one more attempt"
    if code == StoppingError.code and commands is SAME_COMMAND:  # there is no server to start again
        return f"run {commands.predict}"
    if code in _MORE_UNTRIED:
        return f"{cure_of(code)}; then run {commands.predict}"
    return f"{cure_of(code)}; then run {commands.failed}"


def failure_alert(code: str, tasks: int, commands: Commands) -> Alert:
    """The alarm about the tasks without a label that failed for a reason."""
    fix = _failure_fix(code, commands)
    if code == StoppingError.code:
        return Alert(code, f"{of(tasks, 'task', 'were')} interrupted: {meaning_of(code)}", fix)
    if code.startswith("model_"):
        why = f": no model voted; for most of the models the reason is that {meaning_of(code)}"
    else:
        why = f", because {meaning_of(code)}"
    level: Literal["note", "alarm"] = "note" if code == EmptyTextError.code else "alarm"
    return Alert(code, f"{of(tasks, 'task', 'lack')} a label{why}", fix, level=level)


def failed_task_list(
    connection: Connection, projects: list[str], first: int | None, last: int | None
) -> dict[str, Any]:
    """The body of ``GET /failed``: the failed tasks in a range of numbers, and where the next page begins."""
    listed = failed_tasks.list_failures(connection, projects, first or 0, last, limit=_PAGE + 1)
    tasks = [
        {"task": task.task, "code": task.code, "failed_at": task.failed_at, "final": task.code in _FINAL}
        for task in listed[:_PAGE]
    ]
    return {"tasks": tasks, "next": listed[_PAGE].task if len(listed) > _PAGE else None}


def next_steps(project: ProjectReport) -> tuple[NextStep, ...]:
    """List what to do next; if nothing is left to do, the only entry says so."""
    steps = [*_predict(project), *_accept(project), *_check(project), *_improve(project)]
    if not steps:
        steps = [NextStep("nothing", "Nothing: no label is in doubt that people could settle now")]
    return tuple(steps)


def _task_url(project: ProjectReport, task: int | None = None) -> str | None:
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
            yield NextStep("predict", text, _task_url(project), commands_of(project.key).predict)
        return
    if progress.tasks is None:
        return
    open_ = progress.tasks - progress.predicted - progress.failed
    if open_ > 0:
        text = f"Let models label the other {of(open_, 'task')}"
        yield NextStep("predict", text, None, commands_of(project.key).predict)


def _accept(project: ProjectReport) -> Iterator[NextStep]:
    """Certified labels that can become annotations; with several questions the task's score decides."""
    if not is_of_label_studio(project.key) or len(project.current) != 1:
        return
    [question] = project.current
    threshold, open_ = question.guarantee.threshold, question.guarantee.acceptable
    if threshold is None or not open_:
        return
    text = f"Accept the certified labels: {of(open_, 'task')} with a score of at least {threshold:g}"
    command = f"camvo accept --project {project.id} --above {threshold:g}"
    yield NextStep("accept", f"{text} {verb_of(open_, 'have')} no annotation yet", None, command)


def _check(project: ProjectReport) -> Iterator[NextStep]:
    """Labels by people that show how right the others are."""
    current = project.current
    for question in current:
        yield from _certify(project, question)
    checked = sum(question.audit.count + question.reviewed.count for question in current)
    blind = any(_has_blind_tasks(question) for question in current)
    if project.rounds and checked < LEAST and not blind:
        text = f"Label {LEAST - checked} tasks yourself: they show whether the scores keep their word"
        yield NextStep("first_labels", text, _task_url(project), f"camvo review --project {project.id} --tab")


def _certify(project: ProjectReport, question: QuestionReport) -> Iterator[NextStep]:
    certify = question.certify
    if certify is None or certify.needed == 0 or question.guarantee.threshold is not None:
        return
    if not _has_blind_tasks(question):
        return
    first = held_up(project, question)
    if first is not None and certify.needed is None:  # by the few labels that count
        command = f"camvo review --project {project.id} --tab"
        yield NextStep("blind_labels", first, _task_url(project, question.guarantee.next_task), command)
        return
    right = f"{certified_share(question, certify.target)}{_name(project, question)}"
    for step in _certifying(project, question, certify, right):
        yield replace(step, text=step.text + remarks(project, question))


def remarks(project: ProjectReport, question: QuestionReport) -> str:
    """Sentences to add to what it takes to certify: what is certified already, and what holds labels up."""
    held = None if question.certify is None else question.certify.held
    already = None if held is None else already_certified(question, held)
    return "".join(f". {each}" for each in (already, held_up(project, question)) if each is not None)


def held_up(project: ProjectReport, question: QuestionReport) -> str | None:
    """Say which blind task without a label keeps labels behind it from counting; ``None`` if all count."""
    guarantee = question.guarantee
    behind = guarantee.labelled - guarantee.run
    if not behind or guarantee.next_task is None:
        return None
    task = named_task(guarantee.next_task, project.key)
    return f"Label task {task} first: {of(behind, 'blind label')} behind it in the queue can count only then"


def certified_share(question: QuestionReport, share: float) -> str:
    """A share of right labels, with the setting that it needs if it is not the project's own."""
    if share == question.guarantee.target:
        return share_of_hundred(share)
    return f"{share_of_hundred(share)} (if you set guarantee: {share:g} in camvo.yaml)"


def already_certified(question: QuestionReport, held: float) -> str:
    """Say that a lower share is certified than the project's own."""
    return f"The blind labels certify {certified_share(question, held)} already"


def _certifying(
    project: ProjectReport, question: QuestionReport, certify: CertifyReport, right: str
) -> Iterator[NextStep]:
    if certify.needed is None and certify.wanted is not None:
        yield _too_few_tasks(project, question, certify, right)
    elif certify.needed is None:
        text = f"No number of blind labels is expected to certify {right}: {_too_low(question, certify)}"
        yield NextStep("not_certifiable", text, None, f"camvo review --project {project.id} --tab")
    elif certify.needed <= certify.waiting:
        text = f"Label {of(certify.needed, 'more blind task')} to certify {right}"
        command = f"camvo review --project {project.id} --tab"
        yield NextStep("blind_labels", text, _task_url(project, certify.next_task), command)
    else:
        yield from _more_blind(project, certify, right, question.guarantee.void)


def _too_low(question: QuestionReport, certify: CertifyReport) -> str:
    """Why no number of blind labels certifies a share, and what to do."""
    estimate = question.estimate
    if estimate is None or estimate.basis != "blind" or estimate.share < certify.target:
        return "too many labels are wrong. Label doubtful tasks, or ask better models"
    blind = of(estimate.checked, "blind label")
    return (
        f"{percent(estimate.share)} of {blind} are right, but the scores promise less. Label doubtful tasks,"
        " which corrects the scores"
    )


def too_few_tasks(certify: CertifyReport, right: str) -> str:
    """Say why nothing can be certified: a project has too few tasks for that."""
    possible = certify.waiting + (certify.unpredicted or 0)
    return (
        f"certifying {right} would take about {of(certify.wanted or 0, 'further blind label')}, and"
        f" {of(possible, 'task')} can still get one"
    )


def _too_few_tasks(
    project: ProjectReport, question: QuestionReport, certify: CertifyReport, right: str
) -> NextStep:
    """Say what the blind labels that are possible show instead."""
    text, estimate = f"Nothing can be certified: {too_few_tasks(certify, right)}", question.estimate
    if not certify.waiting or estimate is None:
        return NextStep("not_certifiable", text)
    labels = question.guarantee.run + certify.waiting
    low, high = clopper_pearson(estimate.share * labels, labels)
    text += (
        f". Label the {certify.waiting} that wait all the same: they show the share of right labels to within"
        f" about {50.0 * (high - low):.0f} points"
    )
    command = f"camvo review --project {project.id} --tab"
    return NextStep("blind_labels", text, _task_url(project, certify.next_task), command)


def _more_blind(project: ProjectReport, certify: CertifyReport, right: str, void: int) -> Iterator[NextStep]:
    """Too few blind tasks wait for a label: label those, or keep more tasks blind."""
    needed = f"about {of(certify.needed or 0, 'further blind label')} would certify {right}"
    share = _audit_share((certify.needed or 0) - certify.waiting, certify.unpredicted or 0)
    enough = bool(certify.unpredicted) and project.kept_blind >= share
    if enough:
        needed += f" (audit keeps enough of the {of(certify.unpredicted or 0, 'task')} to come blind)"
    elif certify.unpredicted:
        needed += f" (audit: {share:g} keeps enough of the {of(certify.unpredicted, 'task')} to come blind)"
    if certify.waiting:
        text = f"Label the {of(certify.waiting, 'blind task')}: they show how many labels are right; {needed}"
        command = f"camvo review --project {project.id} --tab"
        yield NextStep("blind_labels", text, _task_url(project, certify.next_task), command)
        return
    if enough:  # they only need to be predicted
        return
    why = f"the {of(void, 'blind label')} so far were given before votes were counted again" if void else ""
    text = f"Keep more of the next tasks blind (audit in camvo.yaml): {needed}, and none waits"
    yield NextStep("more_blind", f"{text}; {why}" if why else text, _task_url(project))


def _has_blind_tasks(question: QuestionReport) -> bool:
    return bool(question.guarantee.blind or question.guarantee.void)


def _improve(project: ProjectReport) -> Iterator[NextStep]:
    for question in project.current:
        name = _name(project, question)
        if question.questionable is not None and question.questionable.certain:
            text = f"Look again at {of(question.questionable.certain, 'questionable label')}{name}"
            first = question.questionable.listed[0].task
            yield NextStep("questionable_labels", text, _task_url(project, first))
        if question.votes is not None and question.votes.families and not question.votes.human:
            family = " and ".join(question.votes.families[0])
            text = f"Label 20 random tasks{name}: they show whether {family} are right or wrong together"
            yield NextStep("related_models", text)
        if project.rounds and not _has_blind_tasks(question):
            yield from _keep_blind(project, question, name)


_AUDIT = 0.1
"""The share of tasks to keep blind while nothing says how many are needed."""


def _audit_share(needed: int, unpredicted: int) -> float:
    """The share of tasks to keep blind so that enough of the tasks to come are; always below 1."""
    return min(max(math.ceil(110.0 * needed / max(unpredicted, 1)) / 100.0, 0.01), 0.95)


def _keep_blind(project: ProjectReport, question: QuestionReport, name: str) -> Iterator[NextStep]:
    """Only a task of which nobody has seen a prediction can be blind, so this is for tasks to come."""
    left, certify = project.progress.unpredicted, question.certify
    if left == 0 or certify is None or not is_of_label_studio(project.key):
        return
    of_left = "the next tasks" if left is None else f"the other {of(left, 'task')}"
    share, promise = _AUDIT, "only blind labels certify"
    if certify.needed:
        share = _AUDIT if left is None else _audit_share(certify.needed, left)
        right = certified_share(question, certify.target)
        promise = f"about {of(certify.needed, 'blind label')} would certify {right}, and nothing else can"
    elif certify.wanted is not None:
        text = too_few_tasks(certify, f"{share_of_hundred(certify.target)}{name}")
        yield NextStep("not_certifiable", f"Nothing can be certified: {text}")
        return
    if project.kept_blind >= share or (project.kept_blind and not certify.needed):
        return
    text = f"Keep some of {of_left} blind{name}: set audit: {share:g} in camvo.yaml before they are predicted"
    yield NextStep("keep_blind", f"{text}; {promise}")


def _name(project: ProjectReport, question: QuestionReport) -> str:
    """The question's name, if the project has several."""
    several = len(project.current) > 1
    return f" ({question.control})" if several else ""
