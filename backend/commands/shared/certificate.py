"""What a project's labels are worth: lines for the end of a run, and the certificate, an HTML page."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.commands.shared.output import plain_table, say
from backend.commands.shared.setup import existing_ledger, stored_project
from backend.datasets.sinks import check_writable, whole_file
from backend.errors import BadLabelConfigError, ConfigError
from backend.learning.annotators import answered_questions
from backend.learning.label_schemes import Asked
from backend.learning.projects import project_settings
from backend.ledger import projects
from backend.ledger.blind_tasks import BlindQueue, BlindQueues
from backend.ledger.certificates import Certificates, CoveredLabels, Issued, hash_evidence
from backend.ledger.database.statements import now
from backend.ledger.projects import Project, Schemes, is_of_label_studio
from backend.ledger.recounts import Recounts
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import ProjectRounds
from backend.questions import parse_label_config
from backend.server.status.build import build_report
from backend.server.status.formats import count, dollars, of, percent, share_of_hundred, templates
from backend.server.status.question_reports import agreement_reports, beyond_chance, replaceable
from backend.server.status.report import (
    AgreementReport,
    CertifyReport,
    FoundTasks,
    ProjectReport,
    QuestionReport,
    RecallReport,
)
from backend.server.status.work import certified_share, held_up, remarks, too_few_tasks
from backend.settings import Environment, Settings
from backend.settings.policies import policy_in_force, policy_of
from camvo.policies.parameters import ByLabel
from camvo.scores.guarantee import CONFIDENCE

if TYPE_CHECKING:
    from backend.server.status.drawings import Drawing


_HALF: Final = 0.5
"""Where a label is only certainly among more of the tasks than this, votes do not tell where it is."""


def _what_to_label(project: ProjectReport, question: QuestionReport) -> str | None:
    """Say what to label so that the guarantee names a score; ``None`` if it does."""
    guarantee, certify = question.guarantee, question.certify
    if guarantee.threshold is not None or certify is None:
        return None
    first = held_up(project, question)
    if first is not None and certify.needed is None:  # by the few labels that count
        return first[:1].lower() + first[1:]
    return _to_certify(project, question, certify) + remarks(project, question)


def _to_certify(project: ProjectReport, question: QuestionReport, certify: CertifyReport) -> str:
    guarantee = question.guarantee
    target = share_of_hundred(guarantee.target)
    if certify.needed is None and certify.wanted is not None:
        text = too_few_tasks(certify, target)
        return text if is_of_label_studio(project.key) else f"{text}; {_how(project)}"
    if certify.needed is None:
        text = f"going by the scores, too many labels are wrong to certify {target}"
        if guarantee.blind or guarantee.void:
            return text
        return f"{text}. Only blind labels can show that scores are too low; {_how(project)}"
    wanted = certified_share(question, certify.target)
    if certify.needed <= certify.waiting:
        return f"label {of(certify.needed, 'more blind task')} to certify {wanted}; {_where(project)}"
    waiting = f"{count(certify.waiting)} wait" if certify.waiting else "none waits"
    more = f"about {of(certify.needed, 'more blind label', 'are')} expected to certify {wanted}"
    return f"{more}, and {waiting}; {_how(project)}"


def _where(project: ProjectReport) -> str:
    if is_of_label_studio(project.key):
        return f"camvo review --project {project.id} --tab shows them"
    return "fill in blind.csv from its top, then run camvo teach blind.csv"


def _how(project: ProjectReport) -> str:
    if is_of_label_studio(project.key):
        if project.kept_blind:
            return f"audit keeps {share_of_hundred(project.kept_blind)} of the tasks to come blind"
        if project.progress.unpredicted == 0:
            return "set audit in camvo.yaml before further tasks are imported: all others were shown"
        return "set audit in camvo.yaml before tasks are predicted"
    return "--blind 300 in a project's first run keeps some, and --name begins another project"


@dataclass(frozen=True, slots=True)
class _NamedModel:
    """A model as the certificate names it: its name, litellm's name, and its settings."""

    name: str
    model: str
    settings: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a certificate in addition to the project's report.

    ``asked_otherwise`` says that label config, instructions or prompt have changed since the labels.
    """

    counting: int
    counted_at: float
    through: int
    covered: CoveredLabels
    evidence: Mapping[str, Mapping[str, Any]]
    config_hash: str
    instructions_hash: str | None
    asked_otherwise: bool
    voters: tuple[_NamedModel, ...]
    agreement: tuple[AgreementReport, ...]
    settings: Mapping[str, str]


def contents_of(connection: Connection, stored: Project, settings: Settings) -> Contents:
    """Collect the contents of a certificate. Reads every round of the project."""
    own, _ = project_settings(stored, settings)
    epochs = ProjectRounds(connection, stored.key).latest_epochs()
    queues = BlindQueues(connection, stored.key).all()
    through = ProjectSums(connection, stored.key).newest_round()
    counting = Recounts(connection, stored.key).latest_number()
    made = Recounts(connection, stored.key).countings()
    evidence = {}
    for control, epoch in sorted(epochs.items()):
        blind = queues.get((control, epoch), BlindQueue()).resting
        evidence[control] = {"epoch": epoch, "blind": len(blind), "hash": hash_evidence(blind)}
    return Contents(
        counting=counting,
        counted_at=made[0].created_at if made else ProjectSums(connection, stored.key).newest_round_at(),
        through=through,
        covered=Certificates(connection, stored.key).hash_labels(epochs, through),
        evidence=evidence,
        config_hash=_sha256(stored.label_config or ""),
        instructions_hash=_sha256(own.instructions) if own.instructions else None,
        asked_otherwise=_asked_otherwise(connection, stored, own, epochs),
        voters=tuple(_voters(own)),
        agreement=agreement_reports(answered_questions(connection, stored.key)),
        settings=_settings(own),
    )


def _asked_otherwise(
    connection: Connection, stored: Project, settings: Settings, epochs: Mapping[str, str]
) -> bool:
    """Whether the questions of now are not those of the latest labels."""
    schemes = Schemes(connection, stored.key).latest()
    if stored.label_config is None or not schemes:
        return False
    try:
        config = parse_label_config(stored.label_config)
    except BadLabelConfigError:
        return False
    return any(
        Asked.under(settings, config, schemes[question.name].embedder).epoch(question)
        != epochs[question.name]
        for question in config.questions
        if question.name in schemes and question.name in epochs
    )


def _voters(settings: Settings) -> list[_NamedModel]:
    shown = ("temperature", "max_tokens", "structured_output", "system_message", "vision", "logprobs")
    return [
        _NamedModel(
            model.name,
            model.model,
            ", ".join(
                f"{name} {getattr(model, name)}".lower()
                for name in shown
                if name in model.model_fields_set and getattr(model, name) is not None
            ),
        )
        for model in settings.models
    ]


def _settings(settings: Settings) -> dict[str, str]:
    """The settings that affect labels. None of them is a text, an address or a path."""
    name, _ = policy_in_force(settings.policy)
    policy = settings.policy.model_dump(exclude={"name"}, exclude_unset=True, exclude_none=True)
    parameters = ", ".join(
        f"{key} ({ByLabel(value)})" if isinstance(value, Mapping) else f"{key} {value}"
        for key, value in sorted(policy.items())
    )
    return {
        "policy": f"{name} ({parameters})" if parameters else name,
        "right, as wanted": f"{settings.guarantee:g}",
        "scores are calibrated": _yes(settings.calibrate),
        "people's labels teach": _yes(settings.human_rewards),
        "examples in prompts": str(settings.few_shot),
        "a student votes": _yes(settings.has_student(policy_of(settings.policy))),
        "texts are redacted": _yes(settings.redact is not None),
        "embedder": _sha256(settings.embedder) if "/" in settings.embedder else settings.embedder,
    }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def print_outcome(console: Console, environment: Environment, project: str) -> None:
    """Print the state of a project's labels, from the ledger."""
    settings = settings_module.load(environment.config)
    with existing_ledger(environment) as ledger, ledger.read() as connection:
        report = _project_report(connection, settings, project)
    if report is None or not report.rounds:
        return
    for line in _outcome_lines(report):
        say(console, line)
    for table in share_tables(report):
        console.print(table)


def _project_report(connection: Connection, settings: Settings, project: str) -> ProjectReport | None:
    """The report on one project, with the shares of its labels; ``None`` if the ledger does not know it."""
    report = build_report(connection, settings, now=now(connection), project=project, certificates=True)
    return next((found for found in report.projects if found.key == project), None)


def _outcome_lines(project: ProjectReport) -> Iterator[str]:
    """The money spent, compared with asking everyone, and which labels are certified."""
    cost = project.cost
    saved = f": {project.saving}" if project.saving else ""
    beside = f" ({cost.beside})" if cost.beside else ""
    paid = f"{dollars(cost.rounds_usd)} for the votes{beside}"
    yield f"{paid}; asking everyone would have cost {cost.everyone}{saved}"
    yield from cost.voteless
    for question in project.questions:
        if question.current:
            yield _certified(project, question)
            yield from _recall_lines(project, question)
            if (shares := question.shares) is not None:
                later = f"; {of(shares.beyond, 'other task')} not covered" if shares.beyond else ""
                yield (
                    f"{question.control}: the share of each label among {of(shares.tasks, 'task')},"
                    f" by {of(shares.blind, 'blind label')}{later}"
                )


def _recall_lines(project: ProjectReport, question: QuestionReport) -> Iterator[str]:
    """Which tasks hold the wanted share of those with a label, or what is missing to know it."""
    for sought in question.recall:
        name, share = f"{question.control}: {sought.label}", share_of_hundred(sought.target)
        if (found := sought.found) is None:
            known = f"{count(sought.labelled)} of {of(sought.blind, 'blind label')} say so"
            more = f"about {count(sought.needed)} more" if sought.blind else "blind labels"
            waits = sought.blind if question.certify is None else question.certify.waiting
            how = _where(project) if waits else _how(project)
            yield f"{name}: it is not certified which tasks hold {share}: {known}; it needs {more}; {how}"
        else:
            yield (
                f"{name}: at least {share} {_among(found, sought)}, those with a score of it of at least"
                f" {found.sure.threshold:.3g}, with {share_of_hundred(CONFIDENCE)} confidence, by"
                f" {of(found.sure.blind, 'blind label')} that say so"
            )
        if sought.beyond and sought.blind:
            yield f"{name}: {of(sought.beyond, 'other task')} not covered"
        if sought.easier and (found is None or found.tasks > _HALF * sought.tasks):
            votes = "the votes hardly tell where it is" if found is not None else "so far"
            lower = [f"{share_of_hundred(each.target)} {_among(each, sought)}" for each in sought.easier]
            yield f"{name}: {votes}: at least {'; '.join(lower)}"


def _among(found: FoundTasks, sought: RecallReport) -> str:
    share = percent(found.tasks / max(sought.tasks, 1))
    return f"is among {count(found.tasks)} of {of(sought.tasks, 'task')} ({share})"


def _certified(project: ProjectReport, question: QuestionReport) -> str:
    guarantee = question.guarantee
    if guarantee.threshold is None:
        void = f"; the recount has voided {of(guarantee.void, 'earlier one')}" if guarantee.void else ""
        advice = _what_to_label(project, question)
        return f"{question.control}: nothing is certified yet{f': {advice}' if advice else ''}{void}"
    return (
        f"{question.control}: {percent(guarantee.freed)} of the labels are at least"
        f" {share_of_hundred(guarantee.target)} right, with {share_of_hundred(guarantee.confidence)}"
        f" confidence: {count(guarantee.labels)} with a score of at least {guarantee.threshold:g}, by"
        f" {of(guarantee.audits, 'blind label')}"
    )


def _render(  # noqa: PLR0917 - what the page says
    project: ProjectReport,
    contents: Contents,
    number: int,
    issued_at: float,
    version: str,
    drawings: dict[str, Drawing],
) -> str:
    """Return the page."""
    questions = project.current
    return (
        templates("backend.commands", "resources", beyond_chance=beyond_chance, replaceable=replaceable)
        .get_template("certificate.html")
        .render(
            project=project,
            contents=contents,
            number=number,
            issued_at=issued_at,
            version=version,
            questions=questions,
            drawings=drawings,
            recall={question.control: [*_recall_lines(project, question)] for question in questions},
            advice={question.control: _what_to_label(project, question) for question in questions},
            models={model.name: model for model in project.models},
        )
    )


def issue_certificate(console: Console, environment: Environment, project: str | None, path: Path) -> int:
    """Write the certificate of a project's labels as they are now, and remember it."""
    from backend.server.status.drawings import certificate_drawings  # noqa: PLC0415 - loads matplotlib

    check_writable(path)
    settings = settings_module.load(environment.config)
    with existing_ledger(environment, migrated=True) as ledger:
        with ledger.read() as connection:
            stored, report = labelled_project(connection, settings, project, "--certificate")
            said = contents_of(connection, stored, settings)
        drawings = certificate_drawings(report.current)
        with ledger.write() as connection:
            number, at = Certificates(connection, stored.key).next_number(), now(connection)
            page = _render(report, said, number, at, metadata.version("camvo"), drawings).encode()
            Certificates(connection, stored.key).store(_record(report, said, number, at, page))
            with whole_file(path) as file:
                file.write(page)
    say(console, f"certificate {number} written to {path} (SHA-256 {hashlib.sha256(page).hexdigest()[:16]}…)")
    for earlier in report.certificates or ():
        if earlier.reason is not None:
            say(console, f"certificate {earlier.number} no longer holds: {earlier.message}")
    return number


def labelled_project(
    connection: Connection, settings: Settings, project: str | None, option: str
) -> tuple[Project, ProjectReport]:
    """The named project, or the only one, with its report; ``option`` is what needs one with labels."""
    if project is None:
        known = [stored.key for stored in projects.list_all(connection)]
        if len(known) != 1:
            raise ConfigError(
                f"the ledger has {of(len(known), 'project')}", where=option, fix="name one with --project"
            )
        project = known[0]
    stored = stored_project(connection, project)
    report = _project_report(connection, settings, stored.key)
    if report is None or not report.rounds:
        raise ConfigError(f"project {stored.key!r} has no label", where="--project", fix="label tasks first")
    return stored, report


def _record(report: ProjectReport, said: Contents, number: int, at: float, page: bytes) -> Issued:
    certified = {
        question.control: 0 if question.guarantee.threshold is None else question.guarantee.labels
        for question in report.current
    }
    return Issued(
        number=number,
        issued_at=at,
        counting=said.counting,
        through=said.through,
        labels=said.covered.count,
        labels_hash=said.covered.hash,
        evidence={
            control: {**found, "certified": certified.get(control, 0)}
            for control, found in said.evidence.items()
        },
        file_hash=hashlib.sha256(page).hexdigest(),
    )


def share_tables(project: ProjectReport) -> Iterator[Table]:
    """The share of each label, question by question."""
    for question in project.questions:
        if question.shares is None or not question.shares.labels:
            continue
        table = plain_table(
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
