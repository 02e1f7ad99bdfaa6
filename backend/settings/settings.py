"""The settings of ``camvo.yaml``, how it is read, and what one Label Studio project may override."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeAlias

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from backend.errors import ConfigError, ModelUnknownError
from backend.settings.mistakes import (
    FROZEN,
    AtLeastOne,
    Real,
    Whole,
    config_error,
    did_you_mean,
    mistake,
    shown,
)
from backend.settings.models import DEFAULT_MODELS, ModelSettings
from backend.settings.policies import NotNegative, PolicyOverrides, PolicySettings, Share
from camvo.policies.ensemble import has_student
from camvo.policies.policy import Policy
from camvo.student import STUDENT
from camvo.subsets.oracle import MOST_ARMS
from camvo.twins import model_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIX = "put the address into an environment variable, and write alerts: {url_env: CAMVO_ALERTS_URL}"


class _AlertSettings(BaseModel):
    """Where alarms are posted; errors never repeat what was written, since it may be the address itself."""

    model_config = FROZEN

    url_env: str | None = None
    """The environment variable that holds the address, such as that of a Slack webhook; null: nowhere."""

    @model_validator(mode="before")
    @classmethod
    def _is_mapping(cls, value: object) -> object:
        if not isinstance(value, dict | _AlertSettings):
            raise mistake("", "is not a mapping", _FIX)
        return value

    @field_validator("url_env", mode="before")
    @classmethod
    def _names_a_variable(cls, name: object) -> object:
        if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise mistake("", "is not the name of an environment variable", _FIX)
        return name


class HumanSettings(BaseModel):
    """What a person's label costs, in dollars: per label, or per minute by the time that labels take."""

    model_config = FROZEN

    price: NotNegative | None = None
    """Dollars per label."""
    price_per_minute: NotNegative | None = None
    """Dollars per minute; Label Studio says how long a label takes (``lead_time``)."""

    @model_validator(mode="after")
    def _one_price(self) -> HumanSettings:
        if self.price is not None and self.price_per_minute is not None:
            raise mistake("price_per_minute", "is set beside price", "keep one of both")
        return self

    @property
    def priced(self) -> bool:
        """Whether a price is set."""
        return self.price is not None or self.price_per_minute is not None


Edit: TypeAlias = tuple[int, int, str]
"""A replacement: the start and end of the old text, in characters, and the new text."""

RedactFunction: TypeAlias = Callable[[str], Sequence[Edit]]
"""Takes a text, returns what to replace in it. The edits must not overlap."""


def load_redact_function(name: str) -> RedactFunction:
    """Import the function ``module:function``.

    Raises:
        ConfigError: the name has another form, the module cannot be imported, or there is no such function.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise ConfigError(f"{name!r} does not name a function", fix="give it as module:function")
    try:
        loaded = getattr(importlib.import_module(module), function, None)
    except Exception as error:  # a module may raise anything when it is imported
        raise ConfigError(
            f"{module!r} cannot be imported ({type(error).__name__}: {error})",
            fix="install the module, or put its folder on PYTHONPATH; the built-in one needs camvo[redact]",
        ) from None
    if not callable(loaded):
        raise ConfigError(f"{module!r} has no function {function!r}", fix="correct the name")
    return loaded  # type: ignore[no-any-return]  # what a function returns is checked at each call


_FewShot = Annotated[Whole, Field(ge=0, le=20)]


_PROMPTS_AT_ONCE = 8
"""A run has at least this many tasks under way for each task of its largest prompts."""


class BudgetSettings(BaseModel):
    """What may be spent, in dollars; null means no limit."""

    model_config = FROZEN

    project_usd: NotNegative | None = None
    """For one project, over its lifetime."""
    tasks: AtLeastOne | None = None
    """How many tasks the budget of a project is for; ``None`` for as many as ``camvo predict`` counted."""
    day_usd: NotNegative | None = None
    """For all projects together, per day (UTC)."""


class Settings(BaseModel):
    """The content of ``camvo.yaml``."""

    model_config = FROZEN

    models: tuple[ModelSettings, ...] = Field(min_length=1, max_length=MOST_ARMS)
    """The pool."""
    policy: PolicySettings = PolicySettings()
    budget: BudgetSettings = BudgetSettings()
    humans: HumanSettings = HumanSettings()
    """What a person's label costs."""
    complete_labelled: bool = False
    """Whether the server asks models that were left out about tasks that people label."""
    background_share: Share = 0.05
    """Share of what a project has paid so far that the server may spend on its own."""
    alerts: _AlertSettings = _AlertSettings()
    """Where alarms are posted."""
    audit: Annotated[Real, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of tasks that are recorded but get no prediction, so that annotators label them blind."""
    deadline: Annotated[Real, Field(gt=0, lt=100, allow_inf_nan=False)] = 85.0
    """Seconds that a request to ``/predict`` may take; Label Studio gives up after 100."""
    patience_hours: Annotated[Real, Field(gt=0, allow_inf_nan=False)] = 12.0
    """Hours that a call may wait for its turn, or for money, if nobody waits for its answer."""
    hour_usd: NotNegative = 10.0
    """Dollars that an hour is worth by which a slow model delays the tasks; 0 to ignore delays."""
    model_version: str = Field(default="camvo", min_length=1)
    """The model version of the predictions; it must equal the backend's title in Label Studio."""
    human_rewards: bool = True
    """Whether CaMVo learns from annotators' labels; false is the paper's label-free setting."""
    instructions: str | None = None
    """Instructions added to the prompts of every project."""
    project_instructions: bool = True
    """Whether prompts hold the labelling instructions that annotators read in Label Studio."""
    earlier_projects: bool = False
    """Whether a new project starts from what other projects of the ledger taught about the models."""
    calibrate: bool = True
    """Whether scores account for errors that models share, and are fitted to annotators' labels."""
    guarantee: Annotated[Real, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.97
    """Share of labels that must be right above the score from which no review is needed."""
    recount: bool = True
    """Whether kept votes are counted again by the server itself, when that changes enough."""
    prefill: Share = 0.5
    """The least score of a label that Label Studio's form is filled with; below it only the score shows."""
    show_votes: bool = False
    """Whether each model's vote is returned as a prediction of its own, before the ensemble's."""
    show_annotators: bool = False
    """Whether ``/status`` reports on each annotator, by id. Only a server with credentials does."""
    few_shot: _FewShot = 0
    """The most human-labelled tasks that a prompt shows as examples, for the models that they help."""
    student: bool | None = None
    """Whether a student votes too: an arm that costs nothing and is trained on the resulting labels.

    ``None`` means as the policy in force has it (:meth:`has_student`).
    """
    redact: str | None = None
    """The function ``module:function`` that replaces parts of every text before a model sees it."""
    unredacted_images: bool = False
    """Whether tasks with images are shown to models although texts are redacted."""
    embedder: str = Field(default="all-MiniLM-L6-v2", min_length=1)
    """A sentence-transformers model, by name or folder."""
    retries: Annotated[Whole, Field(ge=0)] = 2
    """How often a call is repeated after a transient failure."""
    concurrency: AtLeastOne = 64
    """Tasks in progress at once, per process."""

    @field_validator("policy", "budget", "humans", "alerts", mode="before")
    @classmethod
    def _null_means_defaults(cls, value: object) -> object:
        return {} if value is None else value

    @field_validator("redact")
    @classmethod
    def _redacts(cls, name: str | None) -> str | None:
        if name is not None:
            try:
                load_redact_function(name)
            except ConfigError as error:
                raise mistake("", error.message, error.fix or "") from None
        return name

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        names = [model.name for model in self.models]
        for position, name in enumerate(names):
            if name in names[:position]:
                raise mistake(
                    f"models[{position}].name", f"{name!r} is used twice", "give each model a unique name"
                )
        for position, name in enumerate(names):
            if (model := model_of(name)) in names:
                raise mistake(
                    f"models[{position}].name",
                    f"{name!r} is the name of a packed arm of {model!r}",
                    f"rename the model, or set pack at {model}",
                )
        if STUDENT in names:
            where = f"models[{names.index(STUDENT)}].name"
            raise mistake(where, f"{STUDENT!r} is the name of the student", "rename the model")
        if self.complete_labelled and self.budget.project_usd is None and self.budget.day_usd is None:
            fix = "set budget.project_usd or budget.day_usd: the server spends money by itself"
            raise mistake("complete_labelled", "needs a budget", fix)
        problem = _misfit(self.policy, names)
        if problem is not None:
            raise mistake(f"policy.{problem[0]}", *problem[1:])
        return self

    @property
    def tasks_at_once(self) -> int:
        """Tasks that a run works on at once: enough to fill some prompts that hold several."""
        largest = max((model.pack or 0 for model in self.models), default=0)
        return max(self.concurrency, _PROMPTS_AT_ONCE * largest)

    @property
    def longest_call(self) -> float:
        """Seconds that work under way may still take once no further call is sent."""
        return max(self.deadline, *(model.timeout for model in self.models))

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of all arms: each model, and after it its packed arm if it has one."""
        return tuple([arm for model in self.models for arm in (model.name, model.packed_name) if arm])

    def has_student(self, policy: Policy) -> bool:
        """Whether a student votes beside a policy, that of a task, which runs with these settings."""
        return self.student is not False and has_student(policy)

    def for_project(self, extra_params: Mapping[str, object] | str | None) -> Settings:
        """Return these settings with one project's overrides.

        Overrides of policy parameters that the policy in force lacks are accepted and have no effect.

        Args:
            extra_params: the project's extra params as Label Studio sends them: an object, the same object as
                a JSON string, or null. The keys are ``max_stages``, ``models``, ``instructions``,
                ``project_instructions``, ``prefill``, ``show_votes``, ``few_shot``, and the parameters of
                policies that a project may override.
                ``models`` is a list of names from the pool; the pool's order is kept.

        Raises:
            ConfigError: an unknown key or an invalid value; ``where`` is ``extra_params.<key>``.
            ModelUnknownError: a model is not in the pool.
        """
        try:
            overrides = _Overrides.model_validate(_as_mapping(extra_params))
        except ValidationError as error:
            raise config_error(error, "extra_params", _Overrides, joint=".") from None
        models = self.models if overrides.models is None else self._chosen(overrides.models)
        of_policy = overrides.model_dump(include=_OF_POLICY, exclude_none=True)
        if {"worth", "worth_usd"} <= of_policy.keys():
            raise ConfigError("is set beside worth", where="extra_params.worth_usd", fix="keep one of both")
        # A project's own worth takes the place of the server's, in whichever unit that is.
        other = {"worth": "worth_usd", "worth_usd": "worth"}
        replaced = {other[name]: None for name in other if name in of_policy}
        policy = self.policy.model_copy(update=replaced | of_policy)
        problem, key = _misfit(policy, [model.name for model in models]), "models"
        if problem is None and (problem := policy.contradiction) is not None:
            key = "agreement"  # what the server's values by label contradict
        if problem is not None:
            key = problem[0] if problem[0] in of_policy else key
            raise ConfigError(problem[1], where=f"extra_params.{key}", fix=problem[2])
        direct = overrides.model_dump(exclude=_OF_POLICY | {"models"}, exclude_none=True)
        return self.model_copy(update={"models": models, "policy": policy, **direct})

    def with_instructions(self, of_project: str | None) -> Settings:
        """Return these settings with a project's labelling instructions before those of the settings.

        Nothing changes if the project has none, or if ``project_instructions`` is off.
        """
        if not self.project_instructions or of_project is None or not of_project.strip():
            return self
        texts = [text for text in (of_project.strip(), (self.instructions or "").strip()) if text]
        return self.model_copy(update={"instructions": "\n\n".join(texts)})

    def _chosen(self, names: Sequence[str]) -> tuple[ModelSettings, ...]:
        pool = [model.name for model in self.models]
        for position, name in enumerate(names):
            where = f"extra_params.models[{position}]"
            if name not in pool:
                fix = did_you_mean(name, pool)
                raise ModelUnknownError(f"{name!r} is not in the pool", where=where, fix=fix)
            if name in names[:position]:
                raise ConfigError(f"{name!r} is listed twice", where=where, fix="list each model once")
        return tuple(model for model in self.models if model.name in names)


class _Overrides(PolicyOverrides):
    """The keys of ``extra_params``; null means absent."""

    models: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    instructions: str | None = None
    project_instructions: bool | None = None
    prefill: Share | None = None
    show_votes: bool | None = None
    few_shot: _FewShot | None = None


_OF_POLICY = set(PolicyOverrides.model_fields)


def _as_mapping(extra_params: Mapping[str, object] | str | None) -> Mapping[str, object]:
    value: object = extra_params
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except ValueError:
            raise ConfigError(
                "the text is not JSON", where="extra_params", fix='give an object such as {"delta": 0.9}'
            ) from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{type(value).__name__} is not a JSON object",
            where="extra_params",
            fix='give {"delta": 0.9}, or null',
        )
    return value


def _misfit(policy: PolicySettings, names: Sequence[str]) -> tuple[str, str, str] | None:
    """Say why a policy cannot work with a pool: the policy's key, what is wrong, what to do."""
    if policy.name == "single":
        if policy.model is None:
            return "model", "is missing", f"name the model that single asks, one of {', '.join(names)}"
        if policy.model not in names:
            return "model", f"{policy.model!r} is not in the pool", did_you_mean(policy.model, names)
    has_k_min = policy.name in ("camvo", "ccamvo") or (
        policy.name is None and "k_min" in policy.model_fields_set
    )
    if has_k_min and policy.k_min > len(names):
        return (
            "k_min",
            f"{policy.k_min} is more than the {len(names)} model{'s' * (len(names) != 1)} of the pool",
            f"set k_min to {len(names)} or less, or add models",
        )
    return None


def load(path: Path | None) -> Settings:
    """Load the settings from a file; ``None`` means the defaults.

    The embedded voters are the pool if the file lists no models.
    """
    content = {} if path is None else _read_yaml(path)
    if "models" not in content:
        content = {**content, "models": list(DEFAULT_MODELS)}
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise config_error(error, "camvo.yaml" if path is None else path.name, Settings) from None


def _read_yaml(path: Path) -> dict[object, object]:
    where = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path}",
            where=where,
            fix="correct the path, or give none to use the embedded voters",
        ) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=where, fix="save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=where, fix="give a file that CaMVo can read"
        ) from None
    return _parse(text, where)


def _parse(text: str, where: str) -> dict[object, object]:
    content = None
    try:
        if (node := _composed(text)) is not None:
            _refuse_repeated_keys(node, where, "", set())
            content = yaml.SafeLoader("").construct_document(node)
    except yaml.YAMLError as error:
        raise _syntax_error(error, where) from None
    except ValueError as error:  # PyYAML reads 2024-99-99 as a date
        raise ConfigError(f"a value cannot be read ({error})", where=where, fix="put it in quotes") from None
    if content is None:
        raise ConfigError(
            "is empty", where=where, fix="list the models, or give no file to use the embedded voters"
        )
    if not isinstance(content, dict):
        raise ConfigError(f"{shown(content)} is not a mapping", where=where, fix="begin with models:")
    return content


def _composed(text: str) -> yaml.Node | None:
    """Read a document with libyaml, which is ten times as fast; what it refuses, PyYAML reads or explains."""
    with suppress(AttributeError, yaml.YAMLError):  # PyYAML may have been built without libyaml
        return yaml.compose(text, yaml.CSafeLoader)
    return yaml.compose(text, yaml.SafeLoader)


def _syntax_error(error: yaml.YAMLError, where: str) -> ConfigError:
    """Say where the YAML is invalid, without the line itself, which may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not YAML"
    fix = "indent with spaces" if "\\t" in problem else "correct the line, or the one before it"
    place = where if mark is None else f"{where}: line {mark.line + 1}, column {mark.column + 1}"
    return ConfigError(problem, where=place, fix=fix)


def _refuse_repeated_keys(node: yaml.Node, where: str, path: str, visited: set[int]) -> None:
    """Refuse a mapping with two equal keys: PyYAML would silently keep the last one."""
    if id(node) in visited:  # an anchor may refer to a node that contains it
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _refuse_repeated_keys(item, where, f"{path}[{position}]", visited)
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            below = f"{path}.{key}".removeprefix(".")
            if key in lines:
                raise ConfigError(
                    f"is set twice, in lines {lines[key]} and {line}",
                    where=f"{where}: {below}",
                    fix="keep one",
                )
            lines[key] = line
            _refuse_repeated_keys(value_node, where, below, visited)
