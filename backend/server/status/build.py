"""Builds the report. The database computes the sums; this module interprets them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Literal

import jinja2
from prometheus_client.samples import Sample
from sqlalchemy import Connection

from backend.annotation.inspection import InspectedTask
from backend.errors import BadLabelConfigError, ModelTimeoutError, UnavailableError
from backend.learning.annotators import answered_questions
from backend.learning.label_schemes import compare_texts_so_far, open_labels
from backend.learning.projects import asked_questions, closed_controls, project_settings, shown_instructions
from backend.ledger import money, projects, reports
from backend.ledger.answers import PackChecks
from backend.ledger.learning_data import labels_beside
from backend.ledger.missing_votes import Mark, MissingVotes, Outcome, recent_outcomes, unread_examples
from backend.ledger.money import from_picodollars
from backend.ledger.projects import FailedTasks, Project, is_of_label_studio, short_name
from backend.ledger.recounts import NO_FURTHER_VOTES, FurtherVotes, Recounts
from backend.ledger.reports import BINS, BinRow, CallsRow, ProjectSums, RoundsRow
from backend.ledger.rounds import ProjectRounds
from backend.questions import LabelConfig, parse_label_config
from backend.questions.relabelling import OpenLabels
from backend.server.status import formats
from backend.server.status.alarms import (
    Found,
    alarms_first,
    anchoring_alerts,
    project_alerts,
    server_alerts,
    unclear_labels,
)
from backend.server.status.missing import Missing, missing_of
from backend.server.status.promises import certificate_reports
from backend.server.status.question_reports import (
    QuestionSource,
    agreement_reports,
    annotator_reports,
    best_single_report,
    beyond_chance,
    model_reports,
    points,
    question_reports,
    replaceable,
)
from backend.server.status.report import (
    Budget,
    Cost,
    LostCalls,
    ModelVersion,
    PackComparison,
    PackReport,
    ProgressReport,
    ProjectReport,
    RecountReport,
    ReliabilityReport,
    Report,
    ScoreBin,
    ServerReport,
    Share,
)
from backend.server.status.work import commands_of, failed_task_reports, next_steps
from backend.settings import Environment, Settings
from backend.telemetry import metrics
from camvo.errors import CamvoError
from camvo.twins import judge_pack, model_of

_MAYBE_BILLED = frozenset({ModelTimeoutError.code, UnavailableError.code})
"""Failures of calls that cost something only because a provider may bill them."""


def _pack_reports(connection: Connection, project: str) -> tuple[PackReport, ...]:
    """A report for each packed arm that a project has asked, by name."""
    comparisons = defaultdict(list)
    for (arm, control, epoch), agreed in sorted(PackChecks(connection, project).by_question().items()):
        verdict = judge_pack(agreed)
        comparisons[arm].append(
            PackComparison(control, epoch, verdict.compared, verdict.differed, verdict.unpacked)
        )
    sums = {row.arm: row for row in ProjectSums(connection, project).packs()}
    return tuple(
        PackReport(
            arm=arm,
            model=model_of(arm) or arm,
            prompts=0 if (row := sums.get(arm)) is None else row.prompts,
            tasks=0 if row is None else row.tasks,
            cost_usd=0.0 if row is None else row.cost_usd,
            comparisons=tuple(comparisons.get(arm, ())),
        )
        for arm in sorted({*sums, *comparisons})
    )


def _progress_report(
    connection: Connection, stored: Project, config: LabelConfig | None, instructions: str | None
) -> ProgressReport:
    """Count a project's tasks; its instructions are part of the prompts now."""
    rounds = ProjectRounds(connection, stored.key)
    predicted = rounds.count_tasks()
    current = ProjectSums(connection, stored.key).labelled_tasks(rounds.latest_epochs())
    # Tasks that are deleted, or new since the last webhook, must not make a number beyond the whole.
    failed = FailedTasks(connection, stored.key).count_unlabelled()
    tasks = None if stored.task_number is None else max(stored.task_number, predicted + failed)
    changed = _changed(stored, config, instructions)
    return ProgressReport(tasks, predicted, failed, predicted - current, changed)


def _changed(stored: Project, config: LabelConfig | None, instructions: str | None) -> tuple[str, ...]:
    if config is None or not stored.predicted:
        return ()
    now = asked_questions(config, instructions)
    names = sorted({*now, *stored.predicted})
    return tuple(name for name in names if now.get(name) != stored.predicted.get(name))


def _label_studio_address(stored: Project, configured: str | None) -> str | None:
    """The address of a project's Label Studio for links; ``None`` if it is unknown.

    It is the one that Label Studio gives itself, since a browser can open it; the configured one may be known
    inside a network of containers only. Each project has its own, so two Label Studios are kept apart.
    """
    if not is_of_label_studio(stored.key):
        return None
    address = (stored.hostname or configured or "").rstrip("/")
    return address if address.startswith(("http://", "https://")) and "@" not in address else None


def _recount_report(connection: Connection, project: str) -> RecountReport:
    """The report of one project."""
    recounted = Recounts(connection, project)
    made, look = recounted.countings(), recounted.last_look()
    last = made[0] if made else None
    seen = last.sequence if last else 0
    waits = look if look is not None and look.by_hand and look.sequence > seen else None
    labels, scores = recounted.changed_labels()
    sums = FurtherVotes(connection, project).sums()
    return RecountReport(
        countings=len(made),
        labels=labels,
        scores=scores,
        last_at=last.created_at if last else None,
        last_reason=last.reason if last else None,
        last_labels=last.labels if last else 0,
        last_scores=last.scores if last else 0,
        score_before=last.score_before if last else None,
        score_after=last.score_after if last else None,
        pending=recounted.count_pending(),
        would_change=waits.labels if waits else 0,
        would_count=waits.counted if waits else 0,
        would_move=waits.score_change if waits else 0.0,
        command=commands_of(project).recount if waits else None,
        further=sums.get("doubt", NO_FURTHER_VOTES),
        completed=sums.get("human", NO_FURTHER_VOTES),
    )


def _reliability_report(rows: Iterable[BinRow]) -> ReliabilityReport:
    """The reliability diagram's numbers and the calibration error."""
    by_bin = {row.bin: row for row in rows}
    labels = Share.of((row.rounds, row.confirmed) for row in by_bin.values())
    gaps = sum(abs(row.score - row.confirmed) for row in by_bin.values())
    total = sum(row.score for row in by_bin.values())
    return ReliabilityReport(
        labels=labels,
        score=total / labels.count if labels.count else None,
        ece=gaps / labels.count if labels.count else None,
        bins=tuple(_bin(number, by_bin.get(number)) for number in range(BINS)),
    )


def _bin(number: int, row: BinRow | None) -> ScoreBin:
    low, high = number / BINS, (number + 1) / BINS
    if row is None:
        return ScoreBin(low, high, 0, None, Share.of(()))
    return ScoreBin(low, high, row.rounds, row.score / row.rounds, Share.of([(row.rounds, row.confirmed)]))


if TYPE_CHECKING:
    from backend.server.status.drawings import Drawing


@dataclass(frozen=True, slots=True)
class _Live:
    """The running server: its own part of the report, and counts and times by project."""

    server: ServerReport
    tasks_under_way: Mapping[str, int]
    webhook_at: Mapping[str, float]


def read_live(environment: Environment) -> _Live:
    """Read the metrics of the server that runs in this environment."""
    samples = metrics.samples(several_processes=environment.prometheus_multiproc_dir is not None)
    webhook_at = _by_label("project", samples.get("camvo_webhook_last_timestamp_seconds", []))
    under_way = _by_label("project", samples.get("camvo_tasks_under_way", []))
    tasks = _by_label("outcome", samples.get("camvo_tasks_total", []))
    requests = samples.get("camvo_requests_total", [])
    webhooks = [sample for sample in requests if sample.labels["endpoint"] == "/webhook"]
    server = ServerReport(
        started_at=_gauge(samples.get("camvo_started_timestamp_seconds", [])) or 0.0,
        webhooks=_webhook_access(environment),
        tasks={outcome: int(count) for outcome, count in tasks.items()},
        webhook_at=max(webhook_at.values(), default=None),
        webhooks_refused=int(_by_label("status", webhooks).get("401", 0)),
        webhook_refused_at=_gauge(samples.get("camvo_webhook_refused_last_timestamp_seconds", [])),
        unsettled=int(_gauge(samples.get("camvo_unsettled_answers", [])) or 0),
        clock_skew=_gauge(samples.get("camvo_clock_skew_seconds", [])),
    )
    return _Live(
        server=server,
        tasks_under_way={project: int(count) for project, count in under_way.items()},
        webhook_at=webhook_at,
    )


def _webhook_access(environment: Environment) -> Literal["open", "guarded", "closed"]:
    """Who can send a webhook; Label Studio's webhooks carry no basic auth."""
    if environment.webhook_secret is not None:
        return "guarded"
    return "open" if environment.basic_auth_user is None else "closed"


def _gauge(samples: Sequence[Sample]) -> float | None:
    """The value of a gauge without labels; ``None`` before it is set."""
    return next((sample.value for sample in samples if sample.value), None)


def _by_label(label: str, samples: Sequence[Sample]) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in samples}


def build_report(
    connection: Connection,
    settings: Settings,
    *,
    now: float,
    live: _Live | None = None,
    project: str | None = None,
    label_studio: str | None = None,
    annotators: bool = False,
    texts: bool = False,
    certificates: bool = False,
    configured: bool = True,
) -> Report:
    """Build the report of every project, or of the projects that ``project`` names.

    Args:
        connection: a read transaction, so that all numbers are of one moment.
        settings: the server's settings.
        now: unix seconds.
        live: what the running server knows, ``None`` without one.
        project: a project's key, or its number in Label Studio.
        label_studio: the configured address of Label Studio, for projects whose own is unknown.
        annotators: whether to report on each annotator.
        texts: whether to show an answer of each model that could not be read, which may repeat a task's text.
        certificates: whether to estimate the share of each label and to check the certificates that were
            issued, which reads every round.
        configured: whether the settings name the models of the projects. Otherwise the models are those that
            a project has asked lately.
    """
    known = selected_projects(connection, project)
    day = money.balance(connection, money.EVERY_PROJECT, money.day_of(now))
    today = _budget(day, settings.budget.day_usd)
    around = _Around(settings, live, label_studio, recent_outcomes(connection), certificates, configured)
    project_reports = [_project_report(connection, stored, around) for stored in known]
    if annotators:
        project_reports = [_with_annotators(connection, report) for report in project_reports]
    if texts:
        project_reports = [_with_examples(connection, report) for report in project_reports]
    project_reports.sort(
        key=lambda report: max((question.last_at for question in report.questions), default=0.0), reverse=True
    )
    server = None if live is None else live.server
    return Report(
        version=metadata.version("camvo"),
        model_version=settings.model_version,
        generated_at=now,
        alerts=server_alerts(server, today, now),
        server=server,
        today=today,
        projects=tuple(project_reports),
    )


def selected_projects(connection: Connection, project: str | None) -> list[Project]:
    """Return the projects with this key, or with this number in Label Studio; all of them without either."""
    return [
        stored
        for stored in projects.list_all(connection)
        if project in (None, stored.key, short_name(stored.key))
    ]


@dataclass(frozen=True, slots=True)
class _Around:
    """The facts that are the same for every project."""

    settings: Settings
    live: _Live | None
    label_studio: str | None
    outcomes: Mapping[tuple[str, str], Sequence[Outcome]]
    certificates: bool
    configured: bool


def _with_annotators(connection: Connection, report: ProjectReport) -> ProjectReport:
    """The report with each annotator, and with the agreement of people, models and the vote."""
    questions = answered_questions(connection, report.key)
    found = agreement_reports(questions)
    alerts = (*report.alerts, *anchoring_alerts(found))
    return replace(
        report, annotators=annotator_reports(questions), agreement=found, alerts=alarms_first(alerts)
    )


def _with_examples(connection: Connection, report: ProjectReport) -> ProjectReport:
    """The report with an answer of each model that gave no vote."""
    found = unread_examples(connection, report.key) if any(model.unread for model in report.models) else {}
    models = (
        replace(model, unread_example=found.get(model.name)) if model.unread else model
        for model in report.models
    )
    return replace(report, models=tuple(models))


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a project before its numbers.

    Attributes:
        stored: the project in the ledger.
        settings: its own settings.
        config: its label config; ``None`` if it is unknown, or cannot be parsed.
        problems: what is wrong with its extra params, and with its label config.
        pool: the models that it asks.
    """

    stored: Project
    settings: Settings
    config: LabelConfig | None
    problems: tuple[CamvoError | None, CamvoError | None]
    pool: Sequence[str]

    @classmethod
    def of(cls, connection: Connection, stored: Project, around: _Around) -> _Known:
        settings, unfit = project_settings(stored, around.settings)
        config, unreadable = _label_config(stored)
        asked = None if around.configured else tuple(MissingVotes(connection, stored.key, None).of_models())
        return cls(stored, settings, config, (unfit, unreadable), settings.arms if asked is None else asked)

    @property
    def is_nominal(self) -> bool:
        """Whether all models are embedded voters, which cost nobody anything."""
        embedded = {model.name for model in self.settings.models if model.is_embedded}
        return bool(self.pool) and embedded.issuperset(self.pool)

    def source(self, connection: Connection, progress: ProgressReport, around: _Around) -> QuestionSource:
        """What the reports on its questions are made of."""
        return QuestionSource(
            connection,
            self.stored.key,
            around.settings.guarantee,
            closed_controls(self.stored) or {},
            {question.name: question for question in self.config.questions} if self.config else {},
            around.certificates,
            progress.unpredicted,
            self.settings.policy.recall or {},
        )

    def found(
        self, connection: Connection, report: ProjectReport, missing: Missing, around: _Around
    ) -> Found:
        """What its alarms are made of, beside its report."""
        key, config = self.stored.key, self.config
        return Found(
            outcomes={
                model: outcomes
                for (of, model), outcomes in around.outcomes.items()
                if of == key and model in self.pool
            },
            missing=missing,
            problems=self.problems,
            connected=_is_connected(self.stored, report),
            votable=config is None or bool(config.questions),
            unclear=_unclear(connection, key, config),
        )


def _project_report(connection: Connection, stored: Project, around: _Around) -> ProjectReport:
    key, live, known = stored.key, around.live, _Known.of(connection, stored, around)
    config, sums = known.config, ProjectSums(connection, key)
    rounds, calls, bins = sums.rounds(), sums.calls(), sums.scores()
    progress = _progress_report(connection, stored, config, shown_instructions(stored, known.settings))
    questions = question_reports(known.source(connection, progress, around), rounds)
    current = [question for question in questions if question.current]
    models = model_reports(connection, key, calls, known.pool)
    missing = missing_of(connection, key, known.pool)
    label_studio = _label_studio_address(stored, around.label_studio)
    shown, ours = stored.model_version, around.settings.model_version
    report = ProjectReport(
        key=key,
        id=short_name(key),
        alerts=(),
        model_version=ModelVersion(shown, None if shown is None else shown == ours),
        rounds=sum(row.once for row in rounds),
        tasks_under_way=None if live is None else live.tasks_under_way.get(key, 0),
        calls_under_way=sum(row.calls for row in calls if row.under_way),
        webhook_at=None if live is None else live.webhook_at.get(key),
        humans=sums.humans(),
        cost=replace(
            _cost(connection, key, rounds, calls, around.settings.budget.project_usd),
            best_single=best_single_report(
                models,
                current[0].votes if len(current) == 1 else None,
                progress.predicted,
                lambda model, audit: Share.of([labels_beside(connection, key, model, audit=audit)]),
            ),
            nominal=known.is_nominal,
        ),
        questions=questions,
        models=models,
        audit=_reliability_report(row for row in bins if row.audit),
        reviewed=_reliability_report(row for row in bins if not row.audit),
        skipped=() if config is None else config.skipped,
        page=() if config is None else config.page,
        failed=failed_task_reports(connection, key),
        progress=progress,
        title=stored.title,
        label_studio=label_studio,
        url=None if label_studio is None else f"{label_studio}/projects/{short_name(key)}/data",
        recounts=_recount_report(connection, key),
        packs=_pack_reports(connection, key),
        texts=tuple(compare_texts_so_far(connection, key)),
        certificates=certificate_reports(connection, key) if around.certificates else None,
        incomplete=missing.incomplete,
        kept_blind=known.settings.audit,
    )
    if is_of_label_studio(key):  # the steps are commands and pages of Label Studio
        report = replace(report, next_steps=next_steps(report))
    found = known.found(connection, report, missing, around)
    return replace(report, alerts=project_alerts(report, ours, found))


def _is_connected(stored: Project, report: ProjectReport) -> bool:
    """Whether Label Studio has ever called CaMVo about a project, by ``/setup`` or a webhook."""
    by_label_studio = (stored.hostname, stored.title, stored.model_version, stored.extra_params)
    if any(value is not None for value in by_label_studio) or "." not in stored.key:
        return True  # label-studio-ml's own server names projects without a point, and passes less on
    if not is_of_label_studio(stored.key):
        return True
    return bool(report.humans.annotations) or report.webhook_at is not None


def _unclear(connection: Connection, project: str, config: LabelConfig | None) -> dict[str, OpenLabels]:
    return {} if config is None else open_labels(connection, project, config)


def missing_report(connection: Connection, stored: Project, settings: Settings, after: Mark) -> Missing:
    """What a project lacks at the end of a run that began at a moment, and the labels that are unclear."""
    own, _ = project_settings(stored, settings)
    config, _ = _label_config(stored)
    found = missing_of(connection, stored.key, own.arms, after)
    unclear = unclear_labels(stored.key, _unclear(connection, stored.key, config))
    return replace(found, alerts=(*unclear, *found.alerts))


def _label_config(stored: Project) -> tuple[LabelConfig | None, CamvoError | None]:
    """The project's label config; ``None`` if it is unknown, or cannot be parsed, which the error says."""
    if stored.label_config is None:
        return None, None
    try:
        return parse_label_config(stored.label_config), None
    except BadLabelConfigError as error:
        return None, error


def _budget(account: money.Account, limit: float | None) -> Budget:
    spent, reserved = from_picodollars(account.spent), from_picodollars(account.reserved)
    left = None if limit is None else max(limit - spent - reserved, 0.0)
    return Budget(limit_usd=limit, spent_usd=spent, reserved_usd=reserved, left_usd=left)


def _cost(
    connection: Connection,
    project: str,
    rounds: Sequence[RoundsRow],
    calls: Sequence[CallsRow],
    limit: float | None,
) -> Cost:
    """The cost of the votes, those included that were asked for after their rounds."""
    paid = sum(row.cost_usd for row in rounds) + FurtherVotes(connection, project).usd()
    full = sum(row.full_cost_usd for row in rounds)
    reused = sum(row.reused_usd for row in rounds)
    lost = any(row.failure == reports.LOST for row in calls)
    return Cost(
        budget=_budget(money.balance(connection, project, money.TOTAL), limit),
        rounds_usd=paid,
        every_model_usd=full,
        every_model_at_most=any(row.bounded_usd > 0.0 for row in rounds),
        # Sums of the same costs in another order must not say that next to nothing was saved.
        saved=round(1.0 - (paid + reused) / full, 12) + 0.0 if full > 0.0 else None,
        reused=round(sum(row.reused for row in rounds)),
        reused_usd=reused,
        lost=LostCalls(*money.lost_calls(connection, project)) if lost else None,
        timeouts_usd=sum(row.cost_usd for row in calls if row.failure in _MAYBE_BILLED),
    )


HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""HTTP headers that are sent with the page."""


def render_task(found: InspectedTask, title: str | None) -> str:
    """A task that was inspected, as HTML."""
    named = title or f"Project {short_name(found.project)}"
    return _environment().get_template("task.html").render(found=found, title=named)


def render_page(report: Report, *, overview: bool, texts: bool = False) -> str:
    """The report as HTML; with ``texts``, it says where the texts of a task are shown."""
    project = None if overview or not report.projects else report.projects[0]
    return (
        _environment()
        .get_template("status.html")
        .render(
            report=report,
            project=project,
            texts=texts,
            several=project is not None and len(project.current) > 1,
            charts={} if project is None else _drawings(project),
            by_host=_by_host(report.projects),
        )
    )


def _drawings(project: ProjectReport) -> dict[str, list[Drawing]]:
    from backend.server.status.drawings import drawings  # noqa: PLC0415 - matplotlib is slow to load

    return drawings(project)


def _by_host(projects: Sequence[ProjectReport]) -> list[tuple[str, list[ProjectReport]]]:
    """The projects of each Label Studio, so that two of them are kept apart."""
    hosts: dict[str, list[ProjectReport]] = {}
    for project in projects:
        hosts.setdefault(_host(project.label_studio), []).append(project)
    return list(hosts.items())


def _host(address: str | None) -> str:
    """An address without its scheme."""
    return (address or "").partition("://")[2]


@cache
def _environment() -> jinja2.Environment:
    return formats.templates(
        "backend.server.status",
        "templates",
        beyond_chance=beyond_chance,
        host=_host,
        points=points,
        replaceable=replaceable,
    )
