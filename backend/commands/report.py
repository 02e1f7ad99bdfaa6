"""``camvo report``: the numbers of ``GET /status`` on the terminal, from the ledger alone."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend import settings
from backend.commands.shared.certificate import share_tables
from backend.commands.shared.output import plain_table, say
from backend.commands.shared.setup import existing_ledger
from backend.errors import ConfigError, LabelStudioError
from backend.label_studio import predictions
from backend.label_studio.client import Client
from backend.learning.projects import stored_questions
from backend.ledger.database.statements import now
from backend.ledger.projects import get, is_of_label_studio
from backend.ledger.recounts import Recounts
from backend.ledger.rounds import ProjectRounds
from backend.questions import ConfigQuestion
from backend.questions.question import visible_answers
from backend.server.status.build import build_report
from backend.server.status.formats import count, dollars, moment, named_task, of, percent, seconds, verb_of
from backend.server.status.question_reports import LEAST_LABELS, beyond_chance, points, replaceable
from backend.server.status.report import (
    AgreementReport,
    Alert,
    AnnotatorReport,
    EstimateReport,
    GuaranteeReport,
    ModelReport,
    PackReport,
    ProjectReport,
    QuestionReport,
    ReliabilityReport,
    Report,
    ScaleReport,
    Share,
    SharesReport,
    VotesReport,
)
from backend.server.status.work import already_certified, commands_of
from backend.settings import Environment


def _tables(project: ProjectReport) -> Iterator[Table]:
    """The tables of a project, in their order."""
    yield from (
        _votes(project),
        _calls(project),
        *_unread(project),
        _questions(project),
        *share_tables(project),
        *_questionable(project),
        *_texts(project),
    )
    if project.annotators is not None:
        yield _annotators(project.annotators)
    yield from map(_agreement, project.agreement or ())


def _texts(project: ProjectReport) -> Iterator[Table]:
    """The present instructions beside the earlier ones; nothing while they have not changed."""
    if project.texts:
        table = plain_table("question", "instructions now and before")
        for each in project.texts:
            table.add_row(escape(each.control), each.said)
        yield table


def _asked(project: ProjectReport) -> list[ModelReport]:
    """The models that were asked; all of them before the first call."""
    return [model for model in project.models if model.asked or model.calls] or list(project.models)


def _votes(project: ProjectReport) -> Table:
    table = plain_table("model", "asked", "voted", "agrees", "right, blind", "right, reviewed")
    for model in _asked(project):
        if model.is_writer:
            continue
        table.add_row(
            escape(model.name),
            count(model.asked),
            count(model.voted),
            percent(model.agreement.share),
            _cell(model.audit),
            _cell(model.reviewed),
        )
    return table


def _calls(project: ProjectReport) -> Table:
    table = plain_table("model", "calls", "failures", "median", "95%", "dollars")
    for model in _asked(project):
        table.add_row(
            escape(model.name) + (" (camvo refine)" if model.is_writer else ""),
            count(model.calls),
            _codes(model.failures),
            seconds(model.median_seconds),
            seconds(model.p95_seconds),
            dollars(model.cost_usd),
        )
    return table


def _unread(project: ProjectReport) -> Iterator[Table]:
    """The latest answers that gave no vote, with one of each model, if there are any."""
    table = plain_table("model", "latest answers without a vote", "the last begins", "what to do")
    for model in _asked(project):
        if model.unread:
            example, cures = escape(model.unread_example or "–"), "; ".join(model.unread_cures)
            table.add_row(escape(model.name), _codes(model.unread), example, cures)
    if table.row_count:
        yield table


def _codes(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{code.removeprefix('model_')} {count(number)}" for code, number in numbers.items())


def _questions(project: ProjectReport) -> Table:
    table = plain_table("question, epoch", "rounds", "vote right, blind", "reviewed", "last round")
    for question in project.questions:
        table.add_row(
            f"{escape(question.control)}\n[dim]{question.epoch}[/]",
            count(question.rounds),
            _cell(question.audit),
            _cell(question.reviewed),
            moment(question.last_at),
        )
    return table


def _questionable(project: ProjectReport) -> Iterator[Table]:
    """The labels on which vote and people differ, the first ten of each question."""
    for question in project.questions:
        found = question.questionable
        if found is None or not found.labels:
            continue
        table = plain_table(
            f"questionable: {question.control}", "task", "vote", "score", "people", "annotators"
        )
        for label in found.listed[:10]:
            why = "certain vote against one" if label.certain else "vote against people"
            table.add_row(
                why,
                named_task(label.task, project.key),
                escape(label.vote or "–"),
                f"{label.score:.2f}",
                escape(label.human or "–"),
                count(label.annotators),
            )
        yield table


def _annotators(annotators: Sequence[AnnotatorReport]) -> Table:
    table = plain_table("annotator", "labels", "minutes", "right", "agrees", "truth", "misled", "if shown")
    for row in annotators:
        minutes = "–" if row.minutes is None else f"{row.minutes:.1f}"
        if row.id is None:
            table.add_row(f"{count(row.people)} with fewer than {LEAST_LABELS}", count(row.labels), minutes)
            continue
        right = "\n".join(
            f"{percent(fit.right)}\n[dim]{percent(fit.low)}–{percent(fit.high)}[/]"
            for fit in row.reliability.values()
        )
        shares = [_cell(share) for share in (row.agreement, row.truth, row.anchored) if share is not None]
        table.add_row(
            str(row.id), count(row.labels), minutes, right or "–", *shares, _stacked(points(row.anchoring))
        )
    return table


def _agreement(question: AgreementReport) -> Table:
    title = f"beside blind labels: {escape(question.control)}"
    table = plain_table(title, "agreement", "tasks", "may replace")
    people = question.people
    table.add_row("people, α", _stacked(beyond_chance(people)), count(people.tasks) if people else "–")
    for voter in question.voters:
        table.add_row(
            f"{escape(voter.voter)}, κ",
            _stacked(beyond_chance(voter.kappa)),
            count(voter.kappa.tasks) if voter.kappa else "–",
            replaceable(voter.alt_test),
        )
    if question.anchoring is not None:
        table.add_row("more often if shown", _stacked(points(question.anchoring)))
    return table


def _stacked(value: str) -> str:
    """A value with its interval, in parentheses, on the next line."""
    first, opened, rest = value.partition(" (")
    return f"{first}\n[dim]{rest[:-1]}[/]" if opened else value


def _cell(share: Share) -> str:
    """Return a share, with its interval on the next line."""
    if not share.count:
        return "–"
    return f"{percent(share.share)} of {count(share.count)}\n[dim]{share.interval}[/]"


def print_report(
    console: Console,
    environment: Environment,
    *,
    project: str | None,
    as_json: bool,
    annotators: bool = False,
) -> None:
    """Print the report on every project, or on one; with ``annotators`` also on each annotator."""
    report = _load_report(environment, project, annotators=annotators)
    if as_json:
        console.out(json.dumps(dataclasses.asdict(report), indent=2), highlight=False)
        return
    today = report.today
    limit = "" if today.limit_usd is None else f" of {dollars(today.limit_usd)}"
    opening = f"CaMVo {report.version}, {moment(report.generated_at)}"
    console.print(f"{opening}; spent today {dollars(today.spent_usd)}{limit}", highlight=False)
    _print_alerts(console, report.alerts)
    for reported in report.projects:
        _print_project(console, reported, _compared(environment, reported))
    if not report.projects:
        console.print("The ledger has no project yet.")


def _load_report(environment: Environment, project: str | None, *, annotators: bool) -> Report:
    loaded = settings.load(environment.config)
    with existing_ledger(environment) as ledger, ledger.read() as connection:
        report = build_report(
            connection,
            loaded,
            now=now(connection),
            project=project,
            label_studio=environment.label_studio_url,
            annotators=annotators,
            texts=True,
            certificates=True,
            configured=environment.config is not None,
        )
    if project is not None and not report.projects:
        raise ConfigError(
            f"the ledger has no project {project!r}",
            where="--project",
            fix="leave the option out to see every project",
        )
    return report


_SAMPLE = 200
"""Tasks whose score in Label Studio is compared with the ledger's."""

_SAME = 1e-6
"""Scores that differ by less are the same; Label Studio stores them as JSON numbers."""


def _task_score(questions: Sequence[ConfigQuestion], answers: Mapping[str, tuple[str, float]]) -> float:
    """The score of a task's prediction, which hidden answers do not count in."""
    seen = visible_answers(questions, {control: label for control, (label, _) in answers.items()})
    return math.prod(score for control, (_, score) in answers.items() if control in seen)


def _compared(environment: Environment, project: ProjectReport) -> str | None:
    """Compare what Label Studio shows of random tasks with the ledger; ``None`` without access to it."""
    access = environment.label_studio_access
    if access is None or not is_of_label_studio(project.key) or not project.rounds:
        return None
    with existing_ledger(environment) as ledger, ledger.read() as connection:
        epochs = ProjectRounds(connection, project.key).latest_epochs()
        answers = Recounts(connection, project.key).open_answers(epochs)
        stored = get(connection, project.key)
    questions = () if stored is None else stored_questions(stored) or ()
    scores = {task: _task_score(questions, of_task) for task, of_task in answers.items()}
    version = settings.load(environment.config).model_version
    sample = random.Random(project.rounds).sample(sorted(scores), min(len(scores), _SAMPLE))  # noqa: S311
    try:
        client = Client(*access)
        number = client.project_by_key(project.key)["id"]
        tasks, _ = predictions.untouched(client.tasks(number, sample) if sample else [])
    except LabelStudioError as error:
        return f"not compared with the ledger: {error.message}"
    shown = [(task["id"], predictions.of_version(task, version)) for task in tasks]
    absent = sum(not stored for _, stored in shown)
    differ = sum(
        any(abs((each["score"] or 0.0) - scores[task]) > _SAME for each in stored) for task, stored in shown
    )
    if not absent and not differ:
        return f"shows what the ledger holds, by {of(len(shown), 'random task')}"
    return (
        f"of {of(len(shown), 'random task')}, {count(differ)} show another score than the ledger holds and"
        f" {count(absent)} no prediction: {commands_of(project.key).predict} corrects it"
    )


def _print_project(console: Console, project: ProjectReport, compared: str | None) -> None:
    title = f"Project {project.id}" + (f": {project.title}" if project.title else "")
    key = f" ({escape(project.key)})" if is_of_label_studio(project.key) else ""
    console.rule(f"[bold]{escape(title)}[/]{key}", align="left")
    _print_alerts(console, project.alerts)
    facts = [*_headline(project), *_facts(project)]
    if compared is not None:
        facts.append(("label studio", compared))
    for name, value in facts:
        console.print(f"{name:<16} {escape(value)}", highlight=False)
    for table in _tables(project):
        console.print(table)
    for failed in project.failed:
        final = ", final" if failed.final else ""
        line = f"{of(failed.tasks, 'task')} ({failed.code}{final}): {failed.fix}"
        say(console, f"{'no prediction':<16} {line}")
    for control in project.skipped:
        console.print(f"skipped: {escape(control.control)} ({control.tag}): {escape(control.reason)}")


def _headline(project: ProjectReport) -> Iterator[tuple[str, str]]:
    """What the page begins with: how right labels are, dollars, and what to do next."""
    for question in project.questions:
        if question.estimate is not None:
            part = project.part(question.estimate)
            estimated = _estimated(question.estimate) + (f"; {part}" if part else "")
            yield "labels right", f"{question.control}: {estimated}"
        if question.labels is not None and question.labels.scale is not None:
            yield "on the scale", f"{question.control}: {_on_the_scale(question.labels.scale)}"
    cost, single = project.cost, project.cost.best_single
    beside = "" if single is None else f", {dollars(single.usd)} for {single.model} alone"
    if single is not None and single.labels is not None:
        checked = of(single.labels.count, f"{single.basis} label")
        beside += f" ({percent(single.share)} right on {checked}, where the"
        beside += f" labels are {percent(single.labels.share)} right)"
    saved = f" ({project.saving})" if project.saving else ""
    yield "dollars", f"{cost.votes}; {cost.everyone} asking all{saved}{beside}"
    for step in project.next_steps:
        where = step.command or step.url
        yield "next", step.text if where is None else f"{step.text}: {where}"
    whole, predicted = project.progress.tasks, project.progress.predicted
    said = of(predicted, "task") if whole is None else f"{count(predicted)} of {of(whole, 'task')}"
    yield "progress", f"{said} {verb_of(predicted, 'have')} a label"


def _estimated(estimate: EstimateReport) -> str:
    if estimate.low is None:
        checked = of(estimate.checked, "label")
        return f"{percent(estimate.share)}, unchecked: the mean score, with {checked} checked"
    share = f"{percent(estimate.share)} ({percent(estimate.low)} to {percent(estimate.high)})"
    if estimate.basis == "blind":
        return f"{share}, by {of(estimate.checked, 'blind label')}"
    return f"{share}, the score corrected by {of(estimate.checked, 'reviewed label')}"


def _facts(project: ProjectReport) -> Iterator[tuple[str, str]]:
    budget = project.cost.budget
    left = "" if budget.left_usd is None else f"; {dollars(budget.left_usd)} of the budget left"
    yield "rounds", count(project.rounds)
    last = "" if project.humans.last_at is None else f"; the last {moment(project.humans.last_at)}"
    yield "human labels", f"on {of(project.humans.tasks, 'task')}, by {project.annotations}{last}"
    yield "spent", f"{dollars(budget.spent_usd)}{left}"
    for voteless in project.cost.voteless:
        yield "no answer", voteless
    if is_of_label_studio(project.key):
        yield "version", f"{project.model_version.shown or 'unknown'} in Label Studio"
    yield "score, blind", _score(project.audit)
    yield "score, reviewed", _score(project.reviewed)
    yield from _recounts(project)
    for question in project.questions:
        if question.current:
            if question.guarantee.blind:
                yield "blind", f"{question.control}: {_labelled(question.guarantee, project.key)}"
            yield "no review", f"{question.control}: {_guaranteed(question)}"
            if question.shares is not None:
                yield "shares", f"{question.control}: {_spoken_for(question.shares)}"
        if question.votes is not None:
            yield "votes", _worth(question.control, question.votes)
            for line in _stops(question):
                yield "early stops", line
    for pack in project.packs:
        yield "packed", _packed(pack)
    for issued in project.certificates or ():
        holds, message = issued.reason is None, issued.message
        verdict = message.removeprefix("it ") if holds else f"no longer holds: {message}"
        what = f"number {issued.number} of {moment(issued.issued_at)}, {of(issued.labels, 'label')}"
        yield "certificate", f"{what} (SHA-256 {issued.file_hash[:16]}…): {verdict}"
    for model in project.models:
        if (examples := model.examples) is not None:
            parts = f"right {_of(examples.shown)} with them, {_of(examples.left_out)} without"
            yield "examples", f"{model.name}: {parts}; they help with probability {examples.helps:.2f}"


def _packed(pack: PackReport) -> str:
    each = f", {dollars(pack.cost_usd / pack.tasks)} a task" if pack.tasks else ""
    differed = f"differs from {pack.model} in {pack.differed} of {of(pack.compared, 'task')} asked both ways"
    ended = "; asked no more" if pack.unpacked else ""
    return f"{pack.arm}: {of(pack.prompts, 'prompt')} about {of(pack.tasks, 'task')}{each}; {differed}{ended}"


def _print_alerts(console: Console, alerts: tuple[Alert, ...]) -> None:
    for alert in alerts:
        colour = "red" if alert.level == "alarm" else "yellow"
        fix = "" if alert.fix is None else f" ({alert.fix})"
        line = f"{alert.message}{fix} [{alert.code}]"
        console.print(f"[{colour}]![/] {escape(line)}", highlight=False)


def _score(reliability: ReliabilityReport) -> str:
    labels = reliability.labels
    if not labels.count:
        return "no human label"
    return (
        f"{percent(reliability.score)} on average, right {percent(labels.share)} ({labels.interval}, "
        f"n = {count(labels.count)}), ECE {percent(reliability.ece)}"
    )


def _labelled(guarantee: GuaranteeReport, project: str) -> str:
    labelled = f"{count(guarantee.labelled)} of {of(guarantee.blind, 'blind task')} labelled"
    if guarantee.next_task is None:
        return f"{labelled}; all of them count"
    counted = f"the first {count(guarantee.run)} of the queue count"
    return f"{labelled}; {counted}; next is task {named_task(guarantee.next_task, project)}"


def _guaranteed(question: QuestionReport) -> str:
    guarantee, certify = question.guarantee, question.certify
    confidence = percent(guarantee.confidence)
    claim = f"{percent(guarantee.target)} of the labels are right, with {confidence} confidence"
    void = f"; {of(guarantee.void, 'earlier blind label')} void by recount" if guarantee.void else ""
    if not (guarantee.blind or guarantee.void):
        return "nothing is certified, since no task is blind"
    if guarantee.threshold is None:
        held = f". {already_certified(question, certify.held)}" if certify and certify.held else ""
        return f"blind labels support no score from which {claim}{void}{held}"
    later = f"; {of(guarantee.beyond, 'label')} not covered" if guarantee.beyond else ""
    later += void
    hashes = f"counting {(guarantee.counting or '')[:12]}, labels {(guarantee.labels_hash or '')[:12]}"
    return (
        f"from score {guarantee.threshold:g} on: {claim}; frees {of(guarantee.labels, 'label')} "
        f"({percent(guarantee.freed)}), by {count(guarantee.audits)} blind ones{later} ({hashes})"
    )


def _spoken_for(shares: SharesReport) -> str:
    """What the table of shares rests on."""
    text = f"of {of(shares.tasks, 'task')}, by {of(shares.blind, 'blind label')}"
    text += f", {count(shares.unknown)} of them unknown" if shares.unknown else ""
    text += f"; {of(shares.deleted, 'blind task')} deleted" if shares.deleted else ""
    return text + (f"; {of(shares.beyond, 'other task')} not covered" if shares.beyond else "")


def _recounts(project: ProjectReport) -> Iterator[tuple[str, str]]:
    changed = project.recounts
    if changed.countings:
        line = f"{of(changed.labels, 'label')} changed; the last time, {moment(changed.last_at)}"
        line += f", {of(changed.last_scores, 'score')} and {of(changed.last_labels, 'label')}, mean score"
        line += f" {changed.score_before:.3f} → {changed.score_after:.3f}"
        yield "counted again", f"{of(changed.countings, 'time')}; {line}"
        if changed.pending:
            yield "label studio", f"does not show {of(changed.pending, 'change')} yet"
    for name, asked in (("asked more", changed.further), ("completed", changed.completed)):
        if asked.votes:
            yield name, f"{of(asked.votes, 'vote')} on {of(asked.tasks, 'task')}, {dollars(asked.usd)}"


def _on_the_scale(scale: ScaleReport) -> str:
    kappa = "" if scale.kappa is None else f", quadratic kappa {scale.kappa:.2f}"
    return (
        f"{percent(scale.exact)} exact, {percent(scale.within_one)} within one,"
        f" {scale.absolute:.2f} steps off on average{kappa} (n = {count(scale.count)})"
    )


def _worth(control: str, votes: VotesReport) -> str:
    worth = f"{of(votes.models, 'model')} count as {votes.effective_votes:.1f} independent ones"
    if votes.earlier_projects:
        worth += f", starts from {of(votes.earlier_projects, 'earlier project')}"
    return f"{control}: {worth}"


def _stops(question: QuestionReport) -> list[str]:
    """Return the results of the random tests of early stops, and the restarts."""
    if (stops := question.stops) is None:
        return []
    lines = [f"after {of(restart.after, 'round')}: {restart.message}" for restart in stops.restarts]
    if stops.tried:
        lines.insert(0, f"right in {count(stops.right)} of {of(stops.tried, 'round')} that chance tested")
    return [f"{question.control}: {line}" for line in lines]


def _of(share: Share) -> str:
    return f"{percent(share.share)} of {count(share.count)}"
