"""``camvo report``: the numbers of ``GET /status`` on the terminal, from the ledger alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend import settings
from backend.errors import ConfigError
from backend.ledger import Ledger
from backend.ledger.database.clock import now
from backend.server.status.annotators import LEAST_LABELS, AnnotatorReport
from backend.server.status.build import build_report
from backend.server.status.evidence import GuaranteeReport, ReliabilityReport, Share, VotesReport
from backend.server.status.formats import count, dollars, interval, moment, of, percent, seconds
from backend.server.status.report import Alert, ProjectReport, QuestionReport, Report
from backend.settings import Environment


def print_report(
    console: Console,
    environment: Environment,
    *,
    project: str | None,
    as_json: bool,
    annotators: bool = False,
) -> None:
    """Print the report on every project, or on one; with ``annotators`` also on each annotator.

    Raises:
        ConfigError: the ledger has no such project.
        LedgerError: the ledger cannot be read.
    """
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
        _print_project(console, reported)
    if not report.projects:
        console.print("The ledger has no project yet.")


def _load_report(environment: Environment, project: str | None, *, annotators: bool) -> Report:
    loaded = settings.load(environment.config)
    ledger = Ledger(environment.database_url)
    try:
        with ledger.read() as connection:
            report = build_report(
                connection, loaded, now=now(connection), project=project, annotators=annotators
            )
    finally:
        ledger.close()
    if project is not None and not report.projects:
        raise ConfigError(
            f"the ledger has no project {project!r}",
            where="--project",
            fix="leave the option out to see every project",
        )
    return report


def _print_project(console: Console, project: ProjectReport) -> None:
    console.rule(f"[bold]Project {escape(project.id)}[/] ({escape(project.key)})", align="left")
    _print_alerts(console, project.alerts)
    cost = project.cost
    saved = "" if cost.saved is None else f", {percent(cost.saved)} saved"
    left = "" if cost.budget.left_usd is None else f"; {dollars(cost.budget.left_usd)} of the budget left"
    for name, value in {
        "rounds": count(project.rounds),
        "human labels": f"on {of(project.humans.tasks, 'task')}, the last {moment(project.humans.last_at)}",
        "cost": f"{dollars(cost.rounds_usd)} instead of {dollars(cost.every_model_usd)}{saved}",
        "spent": f"{dollars(cost.budget.spent_usd)}{left}",
        "version": f"{project.model_version.shown or 'unknown'} in Label Studio",
        "score, blind": _score(project.audit),
        "score, reviewed": _score(project.reviewed),
    }.items():
        console.print(f"{name:<16} {escape(value)}", highlight=False)
    for question in project.questions:
        if question.current:
            if question.guarantee.blind:
                line = f"{question.control}: {_labelled(question.guarantee)}"
                console.print(f"{'blind':<16} {escape(line)}", highlight=False)
            guaranteed = f"{question.control}: {_guaranteed(question.guarantee)}"
            console.print(f"{'no review':<16} {escape(guaranteed)}", highlight=False)
        if question.votes is not None:
            worth = _worth(question.control, question.votes)
            console.print(f"{'votes':<16} {escape(worth)}", highlight=False)
            for line in _stops(question):
                console.print(f"{'early stops':<16} {escape(line)}", highlight=False)
    for model in project.models:
        if (examples := model.examples) is not None:
            parts = f"right {_of(examples.shown)} with them, {_of(examples.left_out)} without"
            line = f"{model.name}: {parts}; they help with probability {examples.helps:.2f}"
            console.print(f"{'examples':<16} {escape(line)}", highlight=False)
    for table in (_votes(project), _calls(project), _questions(project)):
        console.print(table)
    if project.annotators is not None:
        console.print(_annotators(project.annotators))
    for failed in project.failed:
        final = ", final" if failed.final else ""
        line = f"{of(failed.tasks, 'task')} ({failed.code}{final}): {failed.fix}"
        console.print(f"{'no prediction':<16} {escape(line)}", highlight=False, soft_wrap=True)
    for control in project.skipped:
        console.print(f"skipped: {escape(control.control)} ({control.tag}): {escape(control.reason)}")


def _print_alerts(console: Console, alerts: tuple[Alert, ...]) -> None:
    for alert in alerts:
        fix = "" if alert.fix is None else f" ({alert.fix})"
        console.print(f"[yellow]![/] {escape(alert.message + fix)}", highlight=False)


def _score(reliability: ReliabilityReport) -> str:
    labels = reliability.labels
    if not labels.count:
        return "no human label"
    return (
        f"{percent(reliability.score)} on average, right {percent(labels.share)} ({interval(labels)}, "
        f"n = {count(labels.count)}), ECE {percent(reliability.ece)}"
    )


def _labelled(guarantee: GuaranteeReport) -> str:
    labelled = f"{count(guarantee.labelled)} of {of(guarantee.blind, 'blind task')} labelled"
    if guarantee.next_task is None:
        return f"{labelled}; all of them count"
    counted = f"the first {count(guarantee.run)} of the queue count"
    return f"{labelled}; {counted}; next is task {guarantee.next_task}"


def _guaranteed(guarantee: GuaranteeReport) -> str:
    confidence = percent(guarantee.confidence)
    claim = f"{percent(guarantee.target)} of the labels are right, with {confidence} confidence"
    if guarantee.threshold is None:
        return f"blind labels support no score from which {claim}"
    later = f"; {of(guarantee.beyond, 'later label')} not covered" if guarantee.beyond else ""
    hashes = f"counting {(guarantee.counting or '')[:12]}, labels {(guarantee.labels_hash or '')[:12]}"
    return (
        f"from score {guarantee.threshold:g} on: {claim}; frees {of(guarantee.labels, 'label')} "
        f"({percent(guarantee.freed)}), by {count(guarantee.audits)} blind ones{later} ({hashes})"
    )


def _worth(control: str, votes: VotesReport) -> str:
    return f"{control}: {of(votes.models, 'model')} count as {votes.effective_votes:.1f} independent ones"


def _votes(project: ProjectReport) -> Table:
    table = _table("model", "asked", "voted", "agrees", "right, blind", "right, reviewed")
    for model in project.models:
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
    table = _table("model", "calls", "failures", "median", "95%", "dollars")
    for model in project.models:
        table.add_row(
            escape(model.name),
            count(model.calls),
            ", ".join(
                f"{code.removeprefix('model_')} {count(calls)}" for code, calls in model.failures.items()
            ),
            seconds(model.median_seconds),
            seconds(model.p95_seconds),
            dollars(model.cost_usd),
        )
    return table


def _questions(project: ProjectReport) -> Table:
    table = _table("question, epoch", "rounds", "vote right, blind", "reviewed", "last round")
    for question in project.questions:
        table.add_row(
            f"{escape(question.control)}\n[dim]{question.epoch}[/]",
            count(question.rounds),
            _cell(question.audit),
            _cell(question.reviewed),
            moment(question.last_at),
        )
    return table


def _annotators(annotators: Sequence[AnnotatorReport]) -> Table:
    table = _table("annotator", "labels", "minutes", "right", "agrees", "ground truth", "misled")
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
        table.add_row(str(row.id), count(row.labels), minutes, right or "–", *shares)
    return table


def _stops(question: QuestionReport) -> list[str]:
    """Return what chance found out about early stops, and what began anew."""
    if (stops := question.stops) is None:
        return []
    lines = [f"after {of(restart.after, 'round')}: {restart.message}" for restart in stops.restarts]
    if stops.tried:
        lines.insert(0, f"right in {count(stops.right)} of {of(stops.tried, 'round')} that chance tested")
    return [f"{question.control}: {line}" for line in lines]


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title=" ")
    table.add_column(first, overflow="fold", max_width=24)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _of(share: Share) -> str:
    return f"{percent(share.share)} of {count(share.count)}"


def _cell(share: Share) -> str:
    """Return a share, with its interval on the next line."""
    if not share.count:
        return "–"
    return f"{percent(share.share)} of {count(share.count)}\n[dim]{interval(share)}[/]"
