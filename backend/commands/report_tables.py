"""The tables of ``camvo report``: models, questions, questionable labels and annotators of one project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

from backend.datasets.tasks import task_name
from backend.ledger.projects import is_of_label_studio
from backend.server.status.evidence import Share
from backend.server.status.formats import count, dollars, interval, moment, percent, seconds
from backend.server.status.parts.voters.annotators import LEAST_LABELS, AnnotatorReport
from backend.server.status.report import ModelReport, ProjectReport


def tables(project: ProjectReport) -> Iterator[Table]:
    """The tables of a project, in their order."""
    yield from (
        _votes(project),
        _calls(project),
        _questions(project),
        *share_tables(project),
        *_questionable(project),
    )
    if project.annotators is not None:
        yield _annotators(project.annotators)


def _asked(project: ProjectReport) -> list[ModelReport]:
    """The models that were asked; all of them before the first call."""
    return [model for model in project.models if model.asked or model.calls] or list(project.models)


def _votes(project: ProjectReport) -> Table:
    table = _table("model", "asked", "voted", "agrees", "right, blind", "right, reviewed")
    for model in _asked(project):
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
    for model in _asked(project):
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


def share_tables(project: ProjectReport) -> Iterator[Table]:
    """The share of each label, question by question."""
    for question in project.questions:
        if question.shares is None or not question.shares.labels:
            continue
        table = _table(
            f"share: {question.control}", "models", "in truth", "95% interval", "blind labels alone"
        )
        for label in question.shares.labels:
            alone = f"{percent(label.alone_low)} to {percent(label.alone_high)}"
            row = (
                percent(label.predicted),
                percent(label.share),
                f"{percent(label.low)} to {percent(label.high)}",
            )
            table.add_row(escape(label.label), *row, alone)
        yield table


def _questionable(project: ProjectReport) -> Iterator[Table]:
    """The labels on which vote and people differ, the first ten of each question."""
    for question in project.questions:
        found = question.questionable
        if found is None or not found.labels:
            continue
        table = _table(f"questionable: {question.control}", "task", "vote", "score", "people", "annotators")
        for label in found.listed[:10]:
            why = "certain vote against one" if label.certain else "vote against people"
            table.add_row(
                why,
                str(label.task) if is_of_label_studio(project.key) else task_name(label.task),
                escape(label.vote or "–"),
                f"{label.score:.2f}",
                escape(label.human or "–"),
                count(label.annotators),
            )
        yield table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", title=" ")
    table.add_column(first, overflow="fold", max_width=24)
    for name in others:
        table.add_column(name, justify="right")
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


def _cell(share: Share) -> str:
    """Return a share, with its interval on the next line."""
    if not share.count:
        return "–"
    return f"{percent(share.share)} of {count(share.count)}\n[dim]{interval(share)}[/]"
