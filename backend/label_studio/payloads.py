"""The bodies of ``/setup`` and ``/predict`` as Label Studio 1.23 sends them; unused keys are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, TypeGuard, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)

from backend.errors import BadBodyError
from backend.ledger.money import MAX_USD, Purse
from backend.questions.objects import instructions_text

_Dollars = Annotated[float, Field(ge=0, le=MAX_USD, allow_inf_nan=False)]
_Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_ProjectKey = Annotated[str, Field(pattern=r"^[!-~]{1,100}$")]
"""``<id>.<created_at in unix seconds>``; label-studio-ml's server sends the bare id."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class _ProjectBody(_Body):
    project: _ProjectKey


class _TasksBody(_ProjectBody):
    """Tasks stay raw, so that a malformed one costs the others nothing."""

    label_config: str
    tasks: list[Any]


class SetupRequest(_ProjectBody):
    """POST /setup. ``access_token`` is not read: it is useless where legacy tokens are disabled."""

    extra_params: Any = None
    label_config: str | None = Field(default=None, alias="schema")
    hostname: str | None = None


class JobTerms(_Body):
    """What the job of ``camvo predict`` may cost over all its runs; a misspelt limit must not be ignored.

    Attributes:
        usd: the most, in $; ``None`` for no limit but the server's.
        aim_usd: the cost that its plans try to keep to, in $; ``None`` for none.
        everyone: whether every model is asked, as in a pilot.
        no_wait: whether tasks are decided without models that are down, instead of waiting for them.
        below: as in :class:`QuoteRequest`.
    """

    model_config = ConfigDict(extra="forbid")

    usd: _Dollars | None = None
    aim_usd: _Dollars | None = None
    everyone: StrictBool = False
    no_wait: StrictBool = False
    below: _Score = 1.0

    @property
    def purse(self) -> Purse:
        """The account of the job."""
        return Purse("job", self.usd)


class _PredictParams(_Body):
    """``params`` of ``/predict``. Label Studio sends more, and of these only the context (docs/http.md).

    Attributes:
        context: what the editor says with its request; ``None`` if it did not send the request.
        again: whether models are to make another attempt after their last one.
        stored_only: whether no model is to be asked.
        tasks: how many tasks the project has.
        instructions: the project's labelling instructions as plain text.
        job: the job that the tasks belong to, and what it may cost; ``None`` for none.
    """

    context: Any = None
    again: StrictBool = False
    stored_only: StrictBool = False
    tasks: Annotated[StrictInt, Field(ge=0, lt=2**63)] | None = None
    instructions: StrictStr | None = None
    job: JobTerms | None = None


class PredictRequest(_TasksBody):
    """POST /predict."""

    params: Annotated[_PredictParams, BeforeValidator(lambda sent: {} if sent is None else sent)] = (
        _PredictParams()
    )


class QuoteRequest(_TasksBody):
    """POST /quote: count some tasks, or make the quote of what was counted.

    Attributes:
        tasks: the tasks to count; with ``counted``, one task whose questions are those of the job.
        counted: the sums over all tasks.
        instructions: the project's labelling instructions as plain text; ``None`` if they are not said.
        below: tasks with labels of earlier instructions keep them unless a score is lower; 1 for none.
    """

    counted: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] | None = None
    instructions: str | None = None
    below: _Score = 1.0


class RecountRequest(_ProjectBody):
    """POST /recount: count a project's kept votes again."""


class DoubtsRequest(_ProjectBody):
    """POST /doubts: find the tasks on which further votes are worth most.

    Attributes:
        usd: the most that further votes may cost in all, also in earlier runs, in $.
        most: the most tasks.
    """

    usd: _Dollars
    most: Annotated[int, Field(gt=0, le=10_000)] = 200


class AskMoreRequest(_TasksBody):
    """POST /ask_more: ask models that these tasks' rounds left out.

    Attributes:
        usd: as in :class:`DoubtsRequest`.
        least: the right labels that a dollar for another vote must gain.
    """

    usd: _Dollars
    least: Annotated[float, Field(ge=1e-12, allow_inf_nan=False)]


class CompleteRequest(_TasksBody):
    """POST /complete: ask for the votes that these tasks' rounds lack.

    Attributes:
        usd: the most that the account may have cost, in $; ``None`` for no limit but the server's.
        further: whether the account is that of further votes; otherwise it is that of the job.
    """

    usd: _Dollars | None = None
    further: bool = False

    @property
    def purse(self) -> Purse:
        """The account that pays."""
        return Purse("further" if self.further else "job", self.usd)


class DeliveredRequest(_ProjectBody):
    """POST /recounted: Label Studio shows these tasks' labels by the countings up to ``through``."""

    tasks: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field(max_length=10_000)
    through: Annotated[int, Field(ge=0, lt=2**63)]


_Request = TypeVar("_Request", bound=BaseModel)

_BODY = "send the JSON that Label Studio sends to an ML backend"
_PARAMS = "leave the key out, or send what docs/http.md says of params"


def parse_request(model: type[_Request], body: object) -> _Request:
    """Validate a body.

    Raises:
        BadBodyError: the body does not fit. The error names the key and the rule, never the value.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(["body", *(str(part) for part in first["loc"])])
        rule = "Input should be a JSON object" if first["type"] == "model_type" else first["msg"]
        raise BadBodyError(rule, where=where, fix=_PARAMS if "params" in first["loc"] else _BODY) from None


def is_id(value: object) -> TypeGuard[int]:
    """Whether a value can be one of Label Studio's ids: an integer that fits into a database's 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def parse_task(raw: object) -> tuple[int, Mapping[str, Any]] | None:
    """A task's id and data; ``None`` if either is missing or malformed."""
    if not isinstance(raw, Mapping):
        return None
    number, data = raw.get("id"), raw.get("data")
    if not is_id(number) or not isinstance(data, Mapping):
        return None
    return number, data


START_TRAINING = "START_TRAINING"
"""The only action that Label Studio's ML code sends; it is about a whole project."""

_LONGEST_TITLE = 200

_ACTION = re.compile(r"[A-Z_]{1,64}")


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """One webhook, reduced to what CaMVo reads.

    Attributes:
        action: Label Studio's name of the event.
        project_key: ``<id>.<created_at in unix seconds>``, as in ``/predict`` and ``/setup``.
        label_config: the project's label config at the time of the event.
        model_version: the model version that the project shows, ``None`` if it shows none.
        annotations: the full annotations of ``*_CREATED`` and ``*_UPDATED``.
        annotation_ids: the ids of deleted annotations; Label Studio sends nothing else about them.
        task_ids: the ids of deleted tasks.
        data: the data of the annotated tasks by task id, as far as the webhook carried them.
        title: the project's title, ``None`` if it has none.
        task_number: how many tasks the project has.
        instructions: its labelling instructions as plain text; ``None`` if it does not say them.
        project_changed_at: when somebody last changed the project, as Label Studio says it.
    """

    action: str
    project_key: str
    label_config: str = ""
    model_version: str | None = None
    annotations: Sequence[Mapping[str, Any]] = field(default=())
    annotation_ids: Sequence[int] = field(default=())
    task_ids: Sequence[int] = field(default=())
    data: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    title: str | None = None
    task_number: int | None = None
    instructions: str | None = None
    project_changed_at: str | None = None

    def split(self, size: int = 20) -> Iterator[WebhookEvent]:
        """Split this event if it has many annotations or tasks, so that each part is quick to store.

        Other writers wait no longer than one part takes. Label Studio does not repeat a webhook: if the
        process stops between two parts, the next START_TRAINING catches up with the rest.

        Args:
            size: the largest number of annotations or tasks in one part.
        """
        longest = max(len(self.annotations), len(self.annotation_ids), len(self.task_ids), 1)
        for start in range(0, longest, size):
            end = start + size
            yield replace(
                self,
                annotations=self.annotations[start:end],
                annotation_ids=self.annotation_ids[start:end],
                task_ids=self.task_ids[start:end],
            )


def parse_webhook(body: Mapping[str, Any]) -> WebhookEvent:
    """Parse a webhook's body.

    Raises:
        BadBodyError: the action, the project's id or its creation time is missing.
    """
    action, project = body.get("action"), body.get("project")
    if not isinstance(action, str) or not _ACTION.fullmatch(action):
        raise BadBodyError(
            "a webhook needs an action", where="body.action", fix="send Label Studio's payload"
        )
    if not isinstance(project, Mapping) or not is_id(project.get("id")):
        raise BadBodyError(
            "a webhook needs the project it is about",
            where="body.project.id",
            fix='leave "Send payload" of the webhook switched on in Label Studio',
        )
    annotations = _listed(body.get("annotation"))
    return WebhookEvent(
        action=action,
        project_key=project_key(project),
        label_config=_text(project.get("label_config")),
        model_version=_text(project.get("model_version")) or None,
        annotations=[annotation for annotation in annotations if isinstance(annotation, Mapping)],
        annotation_ids=_ids([*_list(body.get("annotations")), *annotations]),
        task_ids=_ids(_list(body.get("tasks"))),
        data=task_data(_listed(body.get("task"))),
        title=_text(project.get("title"))[:_LONGEST_TITLE] or None,
        task_number=number if is_id(number := project.get("task_number")) else None,
        instructions=project_instructions(project),
        project_changed_at=_text(project.get("updated_at")) or None,
    )


def project_instructions(project: Mapping[str, Any]) -> str | None:
    """A project's labelling instructions as plain text, empty if it has none; ``None`` if it does not say.

    Label Studio calls them ``expert_instruction``. Neither ``/setup`` nor its own ``/predict`` has them.
    """
    if "expert_instruction" not in project:
        return None
    return instructions_text(_text(project["expert_instruction"]))


def task_data(tasks: Sequence[object]) -> dict[int, Mapping[str, Any]]:
    """The data of raw tasks by task id; malformed tasks are left out."""
    return {
        task["id"]: task["data"]
        for task in tasks
        if isinstance(task, Mapping) and is_id(task.get("id")) and isinstance(task.get("data"), Mapping)
    }


def project_key(project: Mapping[str, Any]) -> str:
    """The key that ``/predict`` uses for the same project: its id and its creation time in unix seconds.

    Raises:
        BadBodyError: the creation time is missing or malformed.
    """
    try:
        created = datetime.fromisoformat(str(project["created_at"])).timestamp()
    except (KeyError, ValueError, OverflowError, OSError) as error:  # the last two of years near 1
        raise BadBodyError(
            "the project's creation time is missing", where="body.project.created_at", fix="send it as is"
        ) from error
    return f"{project['id']}.{int(created)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _ids(entries: Sequence[object]) -> list[int]:
    ids = (entry.get("id") if isinstance(entry, Mapping) else entry for entry in entries)
    return [number for number in ids if is_id(number)]
