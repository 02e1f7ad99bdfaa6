"""Labels and votes that a project lacks: an alarm for each reason and each model, with what to do.

The ends of ``camvo label`` and ``camvo predict``, ``camvo report`` and ``/status`` all show these alarms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final

from sqlalchemy import Connection

from backend.errors import KeyRejectedError, RejectedError, cure_of, meaning_of
from backend.ledger.missing_votes import AskedModel, Mark, MissingVotes
from backend.ledger.projects import FailedTasks
from backend.ledger.rounds import IncompleteRounds
from backend.server.status.formats import count, dollars, moment, of
from backend.server.status.report import Alert
from backend.server.status.work import Commands, commands_of, failure_alert
from camvo.twins import model_of

_INCOMPLETE: Final = "tasks_incomplete"
"""The code of the alarm about labels that were decided without votes which may still come."""

SEPARATOR: Final = ", "
"""Between the models that one alarm is about."""

_SILENT = 2
"""Tasks about which a model was asked in vain, after which it is reported if it gave no vote at all."""

_MANY = 20
"""Tasks about which it was asked, after which it is reported if it gave no vote on most of them."""

_REJECTIONS = {KeyRejectedError.code, RejectedError.code}


class Ending(IntEnum):
    """How a run ended, as the exit code of its command (docs/label.md)."""

    DONE = 0
    TASKS_LEFT = 1
    INCOMPLETE = 3
    MODELS_FAILED = 4

    def lines(self) -> list[str]:
        """The last line of the command; none if all is well."""
        return [f"exit code {self.value}: {_MEANINGS[self]}"] if self in _MEANINGS else []


_MEANINGS = {
    Ending.TASKS_LEFT: "not every task has a label",
    Ending.INCOMPLETE: "votes are missing that may still come",
    Ending.MODELS_FAILED: "models were rejected, or gave no votes or hardly any",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """What a project lacks.

    Attributes:
        alerts: about tasks without a label, about incomplete labels, and about models.
        unlabelled: how many tasks have no label, because they failed.
        incomplete: how many labels are incomplete.
        models: the models that were rejected, or gave no or hardly any votes.
    """

    alerts: tuple[Alert, ...]
    unlabelled: int
    incomplete: int
    models: tuple[str, ...]

    @property
    def ending(self) -> Ending:
        """How a run ends that leaves this behind."""
        if self.unlabelled:
            return Ending.TASKS_LEFT
        if self.models:
            return Ending.MODELS_FAILED
        return Ending.INCOMPLETE if self.incomplete else Ending.DONE

    def lines(self) -> list[str]:
        """The alarms for a terminal, one line each."""
        return [
            f"! {alert.message} [{alert.code}]" + ("" if alert.fix is None else f"\n  → {alert.fix}")
            for alert in self.alerts
        ]

    def to_json(self) -> dict[str, Any]:
        """The body of ``GET /missing``."""
        return asdict(self)

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> Missing:
        """Read such a body."""
        alerts = tuple(Alert(**alert) for alert in body["alerts"])
        return cls(alerts, body["unlabelled"], body["incomplete"], tuple(body["models"]))


def missing_of(
    connection: Connection,
    project: str,
    pool: Collection[str] | None,
    after: Mark | None = None,
    commands: Commands | None = None,
) -> Missing:
    """Find what a project lacks.

    Args:
        connection: a read transaction.
        project: the project's key.
        pool: the models that it may ask; ``None`` if they are not known, for all that it has asked lately.
        after: the start of the run whose models are judged; ``None`` for the latest rounds. Tasks without a
            label and incomplete labels are reported whatever run left them.
        commands: what to run; ``None`` for the commands of the project.
    """
    commands = commands or commands_of(project)
    failed = FailedTasks(connection, project).count()
    incomplete = IncompleteRounds(connection, project).count()
    lacking = {
        model_of(arm) or arm: _Lacking(Counter(codes), *incomplete.times[arm])
        for arm, codes in incomplete.arms.items()
    }
    asked = MissingVotes(connection, project, after).of_models()
    names = [name for name in sorted({*asked, *lacking}) if pool is None or name in pool]
    reports = [_ModelEnd(name, asked.get(name, AskedModel()), lacking.get(name), after) for name in names]
    alerts = [failure_alert(code, tasks, commands) for code, tasks in failed.items()]
    if incomplete.tasks:
        alerts.append(_incomplete(incomplete.tasks, lacking, commands.again))
    alerts += _of_models(reports)
    models = tuple(report.name for report in reports if report.failed)
    return Missing(tuple(alerts), sum(failed.values()), incomplete.tasks, models)


def _incomplete(tasks: int, lacking: Mapping[str, _Lacking], again: str) -> Alert:
    votes = ", ".join(f"{name} {count(each.tasks)}" for name, each in lacking.items())
    are = "is incomplete: it was" if tasks == 1 else "are incomplete: they were"
    message = f"{of(tasks, 'task')} {are} decided without votes that may still come ({votes})"
    fix = f"do what is said of these models below; then run {again}, which asks them"
    return Alert(_INCOMPLETE, message, fix)


@dataclass(frozen=True, slots=True)
class _Lacking:
    """The incomplete labels that lack one model's vote."""

    codes: Counter[str]
    first_at: float
    last_at: float

    @property
    def tasks(self) -> int:
        return self.codes.total()


@dataclass(frozen=True, slots=True)
class _ModelEnd:
    """What is to be said of one model at the end of a run, or now."""

    name: str
    asked: AskedModel
    lacking: _Lacking | None
    after: Mark | None

    @property
    def failed(self) -> bool:
        """Whether it needs a person: it was rejected, or gave no or hardly any votes."""
        codes = self.asked.failures.keys() | (self.lacking.codes.keys() if self.lacking else set())
        return self._silent or self._hardly or bool(_REJECTIONS & codes)

    @property
    def _silent(self) -> bool:
        return self.asked.tasks == self.asked.voteless >= _SILENT

    @property
    def _hardly(self) -> bool:
        return self.asked.tasks >= _MANY and 2 * self.asked.voteless > self.asked.tasks

    @property
    def codes(self) -> Counter[str]:
        """Why its votes are missing."""
        if self.failed and self.asked.failures:
            return Counter(self.asked.failures)
        return Counter() if self.lacking is None else self.lacking.codes

    @property
    def gave_none(self) -> bool:
        """Whether it gave no or hardly any votes, which is reported together with others like it."""
        return bool(self.failed and self.asked.voteless)

    def alert(self) -> Alert:
        """The alarm about it, under the code of most of its missing votes."""
        codes = self.codes
        code = _main(codes)
        return Alert(code, "; ".join(self._said(codes)), cure_of(code), subject=self.name)

    def _said(self, codes: Counter[str]) -> Iterator[str]:
        asked, why = self.asked, _reasons(codes)
        if self.gave_none:
            tasks = ("the latest " if self.after is None else "") + of(asked.tasks, "task")
            gave = f"gave no vote in {count(asked.voteless)} of {tasks}"
            yield f"{self.name} {gave}{_when(asked.first_at, asked.last_at)}, because {why}"
            if asked.rested:
                yield f"in {count(asked.rested)} of them it was not asked, since it had just failed too often"
            if self._silent and self.after is not None and asked.usd:
                yield f"its calls cost {dollars(asked.usd)}"
        elif self.lacking is not None:
            tasks = of(self.lacking.tasks, "task")
            lack = "lacks" if self.lacking.tasks == 1 else "lack"
            when = _when(self.lacking.first_at, self.lacking.last_at)
            yield f"{tasks} of the project {lack} the vote of {self.name}{when}, because {why}"


def _of_models(ends: Iterable[_ModelEnd]) -> Iterator[Alert]:
    """The alarms about models: one for all that fail for the same reason."""
    together: dict[tuple[str, str], list[_ModelEnd]] = {}
    for end in ends:
        if (end.failed or end.lacking) and end.codes:
            kind = "" if end.gave_none else end.name
            together.setdefault((kind, _main(end.codes)), []).append(end)
    for some in together.values():
        yield some[0].alert() if len(some) == 1 else _alert_of(some)


def _alert_of(ends: Sequence[_ModelEnd]) -> Alert:
    """The alarm about models that fail for the same reason."""
    codes = sum((end.codes for end in ends), Counter[str]())
    asked = [end.asked for end in ends]
    times = [(each.first_at, each.last_at) for each in asked if each.first_at and each.last_at]
    when = _when(min(first for first, _ in times), max(last for _, last in times)) if times else ""
    names = [f"{end.name} ({count(end.asked.voteless)} of {of(end.asked.tasks, 'task')})" for end in ends]
    said = [f"no vote came from {', '.join(names[:-1])} and {names[-1]}{when}, because {_reasons(codes)}"]
    if rested := sum(each.rested for each in asked):
        said.append(f"{of(rested, 'time')} they were not asked, since they had just failed too often")
    if all(end.after for end in ends) and (usd := sum(each.usd for each in asked)):
        said.append(f"their calls cost {dollars(usd)}")
    code = _main(codes)
    return Alert(code, "; ".join(said), cure_of(code), subject=SEPARATOR.join(end.name for end in ends))


def _main(codes: Counter[str]) -> str:
    """The code of most of the missing votes."""
    return max(sorted(codes), key=lambda code: codes[code])


def _reasons(codes: Counter[str]) -> str:
    """Why votes are missing, the most frequent reason first."""
    if len(codes) == 1:
        return meaning_of(next(iter(codes)))
    return ", and ".join(f"{meaning_of(code)} ({count(tasks)})" for code, tasks in codes.most_common())


def _when(first_at: float | None, last_at: float | None) -> str:
    """Between which times: ``" on 3 Nov 2026, 10:02 UTC"``, or a second time after ``to``."""
    if first_at is None or last_at is None:
        return ""
    first, last = moment(first_at), moment(last_at)
    if first == last:
        return f" on {first}"
    first_day, last_day = (datetime.fromtimestamp(at, UTC).date() for at in (first_at, last_at))
    begins = first.removesuffix(" UTC")
    return f" from {begins} to {last.rpartition(', ')[2] if first_day == last_day else last}"
