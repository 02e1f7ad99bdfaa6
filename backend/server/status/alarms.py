"""Problems of one project, alarms first. Label Studio shows none of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backend.errors import KeyRejectedError, cure_of, meaning_of
from backend.ledger.missing_votes import Outcome
from backend.ledger.projects import is_of_label_studio, short_name
from backend.questions.relabelling import OpenLabels
from backend.server.status.formats import amount, moment, of, percent
from backend.server.status.missing import SEPARATOR, Missing
from backend.server.status.question_reports import points
from backend.server.status.report import (
    AgreementReport,
    Alert,
    Budget,
    PackReport,
    ProjectReport,
    QuestionReport,
    ServerReport,
    VotesReport,
)
from backend.server.status.work import commands_of
from camvo.errors import CamvoError

_NEARLY_SPENT = 0.1
"""A budget is reported once no more than this share of it is left."""

_SPENT = 0.01
"""It counts as spent once no more than this share is left: a call reserves the most that it can cost."""


def _budget_alerts(whose: str, budget: Budget, fix: str) -> list[Alert]:
    """The alarm about one budget."""
    limit, left = budget.limit_usd, budget.left_usd
    if not limit or left is None or left > _NEARLY_SPENT * limit:
        return []  # without any money, models that are free are asked all the same
    which = f"{whose} budget of ${limit:.6g}"
    if left <= _SPENT * limit:
        message = f"The {which} is spent. Tasks get no prediction"
        if budget.spent_usd < (1.0 - _SPENT) * limit:
            spent, reserved = amount(budget.spent_usd), amount(budget.reserved_usd)
            message = (
                f"The {which} has nothing left: {spent} is spent, and {reserved} is reserved for calls under"
                " way. Until these are settled, tasks whose calls cost something get no prediction"
            )
        return [Alert("budget_spent", message, fix, subject=whose)]
    message = (
        f"Only {amount(left)} of the {which} is unreserved. Tasks whose calls could cost more get no"
        " prediction"
    )
    return [Alert("budget_nearly_spent", message, fix, subject=whose)]


_LATEST = 20
"""The latest calls of a model, which say whether it fails now."""

_MIN_FAILED = 5
"""Failed calls among these that an alarm needs, and they must be at least half."""


def _family_alerts(question: QuestionReport) -> list[Alert]:
    """What votes alone cannot show: whether related models are right together, and whether the model errs."""
    votes = question.votes
    if votes is not None and votes.only_corrections:
        return [
            Alert(
                "only_corrections",
                f"{question.control}: nearly every human label contradicts the prediction, as if people"
                " labelled only wrong ones. Such labels do not show how often models are right, so the model"
                " of votes leaves them out",
                "submit correct predictions too, of tasks in the order in which they come",
                subject=question.control,
            )
        ]
    if votes is not None and votes.contradicted:
        return [
            Alert(
                "votes_contradicted",
                f"{question.control}: human labels agree with the plain majority rather than with the model"
                " of votes, so all models count alike",
                "label 20 more random tasks by hand, which decides between the two",
                subject=question.control,
            )
        ]
    if votes is not None and votes.rival_reading:
        return [_rival_alert(question.control, votes)]
    if votes is not None and votes.people_say:
        said = ", ".join(
            f'"{people}" where the models say "{label}"' for label, people in votes.people_say.items()
        )
        return [
            Alert(
                "people_say_otherwise",
                f"{question.control}: people mostly say {said}. Labels and scores follow the people",
                "say in the instructions when each of these labels is meant, so that the models say it too",
                level="note",
                subject=question.control,
            )
        ]
    return [] if votes is None or votes.human else _unsettled_alerts(question.control, votes)


def _unsettled_alerts(control: str, votes: VotesReport) -> list[Alert]:
    """What votes leave open as long as no human label is there."""
    if votes.models == 2:
        return [
            Alert(
                "two_models",
                f"{control}: where two models differ, their votes do not show which is right."
                " CaMVo then believes the more expensive one",
                "add a third model, or label 50 random tasks by hand with complete_labelled: true",
                level="note",
                subject=control,
            )
        ]
    worth = f"{votes.models} models count as {votes.effective_votes:.1f} independent ones"
    return [
        Alert(
            "related_models",
            f"{control}: {', '.join(family)} agree with each other far more than with the rest. "
            f"Together the {worth}",
            "label 20 random tasks by hand: votes alone cannot show whether these models are right together",
            level="note",
            subject=control,
        )
        for family in votes.families
    ]


_MANY_ROUNDS = 100
"""Everyone-rounds from which on a rival reading is seldom a matter of chance."""


def _rival_alert(control: str, votes: VotesReport) -> Alert:
    """Some models read the tasks otherwise than the others; or perhaps, while few rounds show it."""
    those, few = ", ".join(votes.rival_reading), votes.everyone < _MANY_ROUNDS
    if few:
        found = f"{those} may read the tasks otherwise than the other models. {votes.everyone:.0f} tasks that"
        found += " asked every model do not show yet who is right"
    else:
        found = f"{those} read the tasks otherwise than the other models, and votes alone do not show who is"
        found += " right"
    return Alert(
        "rival_readings",
        f"{control}: {found}, so all models count alike",
        "label the 20 tasks with the lowest scores by hand (camvo review): on most of them the two readings"
        " differ" + (". Or predict more tasks, which mostly decides it" if few else ""),
        level="note" if few else "alarm",
        subject=control,
    )


def _constant_alerts(question: QuestionReport) -> list[Alert]:
    """The models that say the same whatever the task is."""
    votes = question.votes
    if votes is None:
        return []
    return [
        Alert(
            "constant_votes",
            f"{question.control}: {model} gives nearly every task the same label, also where the other models"
            " give another. Its votes have no weight",
            "look at its answers and its prompt; if it is meant to answer so, remove it from models in"
            " camvo.yaml: rounds that ask every model pay for it",
            subject=model,
        )
        for model in votes.constant
    ]


def _pack_alerts(packs: Sequence[PackReport]) -> list[Alert]:
    """The packed arms that are no longer asked."""
    return [
        Alert(
            "packing_differs",
            f"{pack.arm} voted otherwise than {pack.model} asked singly, in {each.differed} of "
            f"{of(each.compared, 'task')} ({each.control}); it is asked no more",
            f"set a smaller pack at {pack.model} in camvo.yaml, or none; look for texts that address models",
            subject=pack.arm,
        )
        for pack in packs
        for each in pack.comparisons
        if each.unpacked
    ]


def _failing(model: str, outcomes: Sequence[Outcome]) -> Alert | None:
    """The alarm about a model whose latest calls failed, under the code of most of them.

    A call that was answered shows that the key is accepted now, so earlier rejections of it do not count.
    """
    answered = next((place for place, outcome in enumerate(outcomes) if outcome.code is None), len(outcomes))
    latest = [
        outcome
        for place, outcome in enumerate(outcomes[:_LATEST])
        if place < answered or outcome.code != KeyRejectedError.code
    ]
    codes = Counter(outcome.code for outcome in latest if outcome.code is not None)
    if codes.total() < _MIN_FAILED or 2 * codes.total() < len(latest):
        return None
    code = max(codes, key=lambda code: (codes[code], code))
    since = min(outcome.at for outcome in latest if outcome.code is not None)
    message = (
        f"{model} fails: {codes.total()} of its latest {len(latest)} calls, the first of them on"
        f" {moment(since)}, mostly because {meaning_of(code)}"
    )
    return Alert(code, message, cure_of(code), subject=model)


@dataclass(frozen=True, slots=True)
class Found:
    """Findings from building a project's report that the report does not contain.

    Attributes:
        outcomes: model → the outcomes of its latest calls, the latest first; of models that may be asked.
        missing: the labels and votes that the project lacks.
        problems: errors that occurred.
        connected: whether Label Studio has ever called CaMVo about the project.
        votable: whether its label config has a control that can be voted on.
        unclear: question → its labels of which nobody has said what becomes of them.
    """

    outcomes: Mapping[str, Sequence[Outcome]]
    missing: Missing
    problems: tuple[CamvoError | None, ...]
    connected: bool
    votable: bool
    unclear: Mapping[str, OpenLabels] = field(default_factory=dict)


def project_alerts(project: ProjectReport, model_version: str, found: Found) -> tuple[Alert, ...]:
    """The problems of one project, alarms first."""
    alerts = [Alert(error.code, _message(error), error.fix) for error in found.problems if error is not None]
    for question in project.questions:
        alerts += _score_alerts(project, question)
        alerts += [alert for alert in [_restart_alert(question)] if alert is not None]
        alerts += _family_alerts(question)
        alerts += _constant_alerts(question)
    alerts += found.missing.alerts
    named = {name for alert in found.missing.alerts for name in alert.subject.split(SEPARATOR)}
    failing = [_failing(model, found.outcomes[model]) for model in sorted(found.outcomes)]
    alerts += [alert for alert in failing if alert is not None and alert.subject not in named]
    alerts += _pack_alerts(project.packs)
    alerts += _budget_alerts("project's", project.cost.budget, "raise budget.project_usd in camvo.yaml")
    alerts += _config_alerts(project, found)
    alerts += _text_alerts(project) + _recount_alerts(project)
    alerts += _connection_alerts(project, model_version, found)
    return alarms_first(alerts)


def alarms_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Sort alarms before notes."""
    return tuple(sorted(alerts, key=lambda alert: alert.level != "alarm"))


def anchoring_alerts(agreement: Iterable[AgreementReport]) -> Iterator[Alert]:
    """The questions on which people lean on the predictions that they see."""
    for question in agreement:
        lean = question.anchoring
        if lean is None or not lean.clear:
            continue
        labels = f"{of(lean.shown, 'shown label')} beside {of(lean.blind, 'blind label')} of the same people"
        message = (
            f"{question.control}: people give the vote's label more often when they see it: {points(lean)}, "
            f"by {labels}"
        )
        fix = (
            "rely on blind labels for what is right; raise prefill in camvo.yaml, so that fewer labels are "
            "selected beforehand"
        )
        yield Alert("suggestions_followed", message, fix, level="note", subject=question.control)


def _score_alerts(project: ProjectReport, question: QuestionReport) -> list[Alert]:
    check = question.score_check
    if not question.current or check is None or check.off is None:
        return []
    promise = "too much" if check.off == "high" else "too little"
    right = f"{percent(check.share)} of the latest {of(check.count, f'{check.basis} label')} were right"
    message = f"{question.control}: scores promise {promise}. They say {percent(check.score)}, but {right}"
    interval = f"95% interval {percent(check.low)} to {percent(check.high)}"
    correct = commands_of(project.key).correct_scores
    if check.off == "high":
        fix = (
            "do not accept labels by their score. Label more tasks, which corrects the scores of later "
            "predictions; look at the questionable labels for a hint or an instruction that the models miss; "
            f"then {correct}"
        )
    else:
        fix = "no label is worse than its score says. Label more tasks, which corrects the scores of later"
        fix += f" predictions; then {correct}"
        if question.guarantee.threshold is not None:
            fix += "; accept what the blind labels certify before votes are counted again, which ends it"
    return [Alert("score_off", f"{message} ({interval})", fix, subject=question.control)]


def unclear_labels(project: str, unclear: Mapping[str, OpenLabels]) -> list[Alert]:
    """The alarms about labels of which nobody has said what becomes of them, or where they come from."""
    return [_unclear(project, control, labels) for control, labels in unclear.items()]


def _unclear(project: str, control: str, labels: OpenLabels) -> Alert:
    gone, added = (", ".join(map(repr, names)) for names in (labels.gone, labels.added))
    command = f"camvo relabel --project {short_name(project)}"
    also = f"the label config has {added} in addition"
    if labels.gone:
        message = f"{control}: the label config lacks {gone}" + (f", and {also}" if added else "")
        old, new = labels.gone[0], labels.added[0] if labels.added else "new"
        fix = (
            f"say what becomes of each, which costs no call: `{command} --rename '{old}={new}'`, --merge"
            f" a,b=c or --drop '{old}'"
        )
    else:
        message = f"{control}: {also}"
        fix = (
            f"say which labels it takes tasks from: `{command} --add '{labels.added[0]}=a,b'`, which quotes"
            " what asking about these again costs"
        )
    said = f"{message}. Predictions go on under the labels before"
    fix += f"; if the labels are others now, `{command} --anew`"
    return Alert("labels_unclear", said, fix, subject=control)


def _config_alerts(project: ProjectReport, found: Found) -> list[Alert]:
    alerts = []
    names = ", ".join(f"{control.control} ({control.tag})" for control in project.skipped)
    if not found.votable:
        message = f"No control of the label config can be voted on: {names or 'it has none'}"
        alerts.append(Alert("config_unsupported", message, "use a control of docs/tags.md"))
    elif names:
        message = f"Controls without predictions: {names}"
        fix = "see the reasons below; people label these by hand"
        alerts.append(Alert("config_partly_supported", message, fix, level="note"))
    alerts += unclear_labels(project.key, found.unclear)
    refresh = (
        f"run {commands_of(project.key).refresh}, which asks about all of these tasks again; --below 0.7"
        " limits that to those with a lower score, and `camvo quote` says what each costs"
    )
    changed = [name for name in project.progress.config_changed if name not in found.unclear]
    if changed:
        message = (
            "The label config or the instructions have changed since the latest predictions: "
            + ", ".join(changed)
        )
        alerts.append(Alert("config_changed", message, refresh))
    elif project.progress.outdated:
        message = (
            f"{of(project.progress.outdated, 'task')} only have predictions of an earlier label config, "
            "instructions, prompt or embedder"
        )
        alerts.append(Alert("config_changed", message, refresh))
    return alerts


def _text_alerts(project: ProjectReport) -> list[Alert]:
    """The alarms about new instructions that are worse than the ones before."""
    take_back = f"run `camvo refine --project {short_name(project.key)} --take-back`"
    if not is_of_label_studio(project.key):
        take_back = "set instructions in camvo.yaml to the text before"
    fix = f"{take_back}: its labels are kept, and nothing is paid for twice"
    return [
        Alert(
            "instructions_worse", f"{each.control}: {each.said.partition(';')[0]}", fix, subject=each.control
        )
        for each in project.texts
        if each.verdict == "worse"
    ]


def _recount_alerts(project: ProjectReport) -> list[Alert]:
    if (waiting := project.recounts).command is None:
        return []
    message = (
        f"Counted by what is known now, {waiting.would_change} of {of(waiting.would_count, 'label')} would "
        f"change, and scores by {waiting.would_move:.2f} on average"
    )
    fix = f"run {waiting.command}"
    certifying = sum(question.guarantee.run for question in project.current)
    if certifying:
        fix += " once you have used what blind tasks certify, or before more of them are labelled:"
        fix += f" the {of(certifying, 'blind label')} so far then certify nothing any more"
    elif is_of_label_studio(project.key):
        fix += "; a server with LABEL_STUDIO_API_KEY does it by itself"
    return [Alert("recount_waiting", message, fix, level="note")]


def _hear_people(project: ProjectReport) -> str:
    """How labels of people arrive; a file's task whose label was shown can no longer be blind."""
    if is_of_label_studio(project.key):
        return (
            "if people have annotated, look at Settings → Webhooks in Label Studio: one must end in "
            "/webhook and be active"
        )
    if any(question.guarantee.blind for question in project.current):
        return "label the blind tasks, with --blind in blind.csv, and give them to camvo teach"
    return (
        f"camvo label … --name {project.key}-blind --blind 300 writes a sample for people, camvo teach takes"
        " it back, and stored answers are not bought again"
    )


def _connection_alerts(project: ProjectReport, model_version: str, found: Found) -> list[Alert]:
    if project.rounds and not found.connected:
        message = "Predictions are stored in a project that is not connected: no human label comes back"
        fix = (
            f"run camvo connect --project {project.id}; if it was deleted there, camvo ledger erase --project"
            f" {project.id}"
        )
        return [Alert("project_not_connected", message, fix)]
    alerts = []
    if project.model_version.matches is False:
        alerts.append(
            Alert(
                "model_version_differs",
                f"The project shows the model version {project.model_version.shown!r}, but predictions are "
                f"signed {model_version!r}: the score column stays blank and uncertainty sampling is random",
                f"give the model in Label Studio the title {model_version!r}",
            )
        )
    if project.rounds and not project.humans.annotations and project.webhook_at is None:
        message = "No annotation has arrived yet"
        alerts.append(Alert("no_human_answer", message, _hear_people(project), level="note"))
    return alerts


def _message(error: CamvoError) -> str:
    return error.message if error.where is None else f"{error.where}: {error.message}"


_RECENT = 86_400.0
"""Seconds for which a refused webhook is reported."""

_MOST_SKEW = 5.0
"""Seconds by which the host's clock may differ from the database's without a report."""

_HEADER = (
    "in the project's Settings → Webhooks add the header X-Camvo-Secret with CAMVO_WEBHOOK_SECRET to the "
    "webhook that ends in /webhook: Label Studio sends no basic auth with it"
)


def server_alerts(server: ServerReport | None, today: Budget, now: float) -> tuple[Alert, ...]:
    """The problems that concern all projects."""
    alerts = [] if server is None else [*_ledger_alerts(server), *_webhook_alerts(server, now)]
    fix = "raise budget.day_usd in camvo.yaml, or wait for the next UTC day"
    return (*alerts, *_budget_alerts("day's", today, fix))


def _webhook_alerts(server: ServerReport, now: float) -> list[Alert]:
    """Webhooks that are or will be refused; Label Studio does not log a 401."""
    refused_at, count = server.webhook_refused_at, server.webhooks_refused
    if server.webhooks == "closed" and server.webhook_at is None:
        message = "No human answer arrives: Label Studio's webhooks carry no basic auth, and no secret is set"
        return [Alert("webhooks_closed", message, f"set CAMVO_WEBHOOK_SECRET, and {_HEADER}")]
    if refused_at is None or now - refused_at > _RECENT:
        return []
    message = (
        f"Webhooks refused since the start: {count}. They lacked the secret, and their annotations are lost"
    )
    return [Alert("webhooks_refused", message, f"{_HEADER}; then save those annotations again")]


def _ledger_alerts(server: ServerReport) -> list[Alert]:
    alerts = []
    if server.unsettled:
        message = (
            f"{of(server.unsettled, 'paid answer', 'wait')} in memory, since the ledger cannot be written"
        )
        fix = "look for ledger_down in the log, and do not stop the server before they are stored"
        alerts.append(Alert("answers_unsettled", message, fix))
    if server.clock_skew is not None and abs(server.clock_skew) > _MOST_SKEW:
        ahead = "ahead of" if server.clock_skew > 0 else "behind"
        message = f"The clock of this host is {abs(server.clock_skew):.0f} s {ahead} the database's"
        fix = "synchronise both clocks: times in reports differ, though nothing is bought twice"
        alerts.append(Alert("clock_skew", message, fix))
    return alerts


_NEWS = 1_000
"""Rounds after a restart for which it is reported as an alert, unless stops are relearnt earlier."""


_CODES = {
    "stops": "early_stops_wrong",
    "tasks": "tasks_changed",
    "arm": "model_changed",
    "version": "model_version_changed",
}


def _restart_alert(question: QuestionReport) -> Alert | None:
    """The alert of a question's latest restart, until stops are relearnt."""
    stops = question.stops
    if not question.current or stops is None or not stops.relearning or stops.rounds >= _NEWS:
        return None
    latest = stops.restarts[0]
    if latest.model is None:
        fix = (
            "nothing, if the tasks are meant to differ: fewer tasks stop early until new rounds have shown "
            "how often early labels are right. Label some of the latest tasks to see whether the models can "
            "do them"
        )
    else:
        fix = (
            f"nothing, if {latest.model} is still worth its price: its weight is learnt anew, which takes "
            "some hundred tasks. To keep a model from changing, name a dated version in camvo.yaml"
        )
    return Alert(_CODES[latest.kind], f"{question.control}: {latest.message}", fix, subject=question.control)
