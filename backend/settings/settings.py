"""The settings of a CaMVo backend, and what one Label Studio project may override."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from backend.errors import ConfigError, ModelUnknownError
from camvo.state.beta_mixture import EstimatorName
from camvo.subsets.oracle import MOST_ARMS

from .mistakes import Real, Whole, config_error, did_you_mean, mistake
from .models import ModelSettings

Share = Annotated[Real, Field(ge=0, le=1, allow_inf_nan=False)]
NotNegative = Annotated[Real, Field(ge=0, allow_inf_nan=False)]
Ridge = Annotated[Real, Field(ge=0.01, allow_inf_nan=False)]
AtLeastOne = Annotated[Whole, Field(ge=1)]
Rounds = Annotated[Whole, Field(ge=0)]
Worth = Annotated[Real, Field(gt=0, allow_inf_nan=False)]
FewShot = Annotated[Whole, Field(ge=0, le=20)]

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class PolicySettings(BaseModel):
    """How models are chosen and their votes are counted; the names are the paper's symbols."""

    model_config = _FROZEN

    name: Literal["camvo", "ccamvo", "sequential", "stacked", "baseline", "majority", "single"] | None = None
    """Algorithm 1, the same for correlated models, asking in stages while votes can change the label, the
    same while they are worth their price by what human labels taught, Algorithm 2, all models weighed
    equally, or one model. Left out, :mod:`backend.settings.policies` chooses."""
    delta: Share = 0.97
    """δ: the confidence that the subset asked must reach."""
    k_min: AtLeastOne = 3
    """Models asked at least."""
    agreement: Share = 0.99
    """Share of the labels that ``sequential`` keeps as all models together would give them."""
    max_stages: AtLeastOne = 3
    """How often staged policies wait for models; a task that was sent alone is decided in one stage."""
    worth: Worth = 75.0
    """What one more right label is worth to ``stacked``, in prices of asking everyone."""
    first: Rounds = 200
    """Rounds in which ``stacked`` asks everyone at the start, and when a model joins."""
    alpha: NotNegative = 0.25
    """α: how far the lower confidence bound lies below the estimate."""
    lambda_l: Ridge = 1.0
    """λ_L: ridge of the linear models; below 0.01 a withdrawn label would leave rounding errors behind."""
    lambda_r: NotNegative = 1.0
    """λ_R: strength of the regularisation of the confidence."""
    n0: AtLeastOne = 10
    """Rewards before a model's history counts."""
    confidence: Literal["beta", "exact"] = "beta"
    """δ_A by the Beta approximation or by Lemma 1; ``ccamvo`` has its own way."""
    estimator: EstimatorName = "moments"
    """How the Beta mixture is fitted: by the method of moments or by maximum likelihood."""
    model: str | None = None
    """The model that the policy ``single`` asks."""


class BudgetSettings(BaseModel):
    """What may be spent, in dollars; null is without limit."""

    model_config = _FROZEN

    project_usd: NotNegative | None = None
    """For one project, ever."""
    day_usd: NotNegative | None = None
    """For all projects, in one day (UTC)."""


class Settings(BaseModel):
    """Everything that ``camvo.yaml`` says."""

    model_config = _FROZEN

    models: tuple[ModelSettings, ...] = Field(min_length=1, max_length=MOST_ARMS)
    """The pool."""
    policy: PolicySettings = PolicySettings()
    budget: BudgetSettings = BudgetSettings()
    audit: Annotated[Real, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of tasks that are recorded but returned blank, so that people label them unseen."""
    deadline: Annotated[Real, Field(gt=0, lt=100, allow_inf_nan=False)] = 85.0
    """Seconds for one request to ``/predict``; Label Studio gives up after 100."""
    model_version: str = Field(default="camvo", min_length=1)
    """What predictions are signed with: the backend's title in Label Studio."""
    human_rewards: bool = True
    """Whether annotators' labels teach; false is the paper's label-free setting."""
    instructions: str | None = None
    """Instructions for the models, for every project."""
    calibrate: bool = True
    """Whether scores allow for errors that models share, and are fitted to what humans confirmed."""
    guarantee: Annotated[Real, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.97
    """Share of labels that must be right where a score is named from which no review is needed."""
    show_votes: bool = False
    """Whether each model's own vote is returned as a prediction beside the ensemble's."""
    few_shot: FewShot = 0
    """Human-labelled tasks that a prompt shows as examples, for the models that they help."""
    embedder: str = Field(default="all-MiniLM-L6-v2", min_length=1)
    """The sentence-transformers model, or a folder with one."""
    retries: Annotated[Whole, Field(ge=0)] = 2
    """Further tries of a call that failed for a passing reason."""
    concurrency: AtLeastOne = 64
    """Tasks worked on at once, per process."""

    @field_validator("policy", "budget", mode="before")
    @classmethod
    def _null_means_defaults(cls, value: object) -> object:
        return {} if value is None else value

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        names = [model.name for model in self.models]
        for position, name in enumerate(names):
            if name in names[:position]:
                raise mistake(
                    f"models[{position}].name",
                    f"{name!r} is there twice",
                    "give each model a name of its own",
                )
        problem = _misfit(self.policy, names)
        if problem is not None:
            raise mistake(f"policy.{problem[0]}", *problem[1:])
        return self

    def for_project(self, extra_params: Mapping[str, object] | str | None) -> Settings:
        """These settings with what one project overrides.

        Args:
            extra_params: as Label Studio sends them: an object, the same as a JSON string, or null. Its keys
                are ``delta``, ``k_min``, ``agreement``, ``max_stages``, ``worth``, ``first``, ``models``,
                ``instructions``, ``show_votes`` and ``few_shot``. ``models`` is a list of names from the
                pool, which keep the pool's order.

        Raises:
            ConfigError: an unknown key or a value that does not fit; ``where`` is ``extra_params.<key>``.
            ModelUnknownError: a model that is not in the pool.
        """
        try:
            overrides = _Overrides.model_validate(_as_mapping(extra_params))
        except ValidationError as error:
            raise config_error(error, "extra_params", _Overrides, joint=".") from None
        models = self.models if overrides.models is None else self._chosen(overrides.models)
        given = overrides.model_dump(include=_OF_POLICY, exclude_none=True)
        policy = self.policy.model_copy(update=given)
        problem = _misfit(policy, [model.name for model in models])
        if problem is not None:
            key = problem[0] if problem[0] in given else "models"
            raise ConfigError(problem[1], where=f"extra_params.{key}", fix=problem[2])
        direct = overrides.model_dump(include={"instructions", "show_votes", "few_shot"}, exclude_none=True)
        return self.model_copy(update={"models": models, "policy": policy, **direct})

    def _chosen(self, names: Sequence[str]) -> tuple[ModelSettings, ...]:
        pool = [model.name for model in self.models]
        for position, name in enumerate(names):
            where = f"extra_params.models[{position}]"
            if name not in pool:
                fix = did_you_mean(name, pool)
                raise ModelUnknownError(f"{name!r} is not in the pool", where=where, fix=fix)
            if name in names[:position]:
                raise ConfigError(f"{name!r} is there twice", where=where, fix="name each model once")
        return tuple(model for model in self.models if model.name in names)


class _Overrides(BaseModel):
    """What ``extra_params`` may hold; null is as good as absent."""

    model_config = _FROZEN

    delta: Share | None = None
    k_min: AtLeastOne | None = None
    agreement: Share | None = None
    max_stages: AtLeastOne | None = None
    worth: Worth | None = None
    first: Rounds | None = None
    models: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    instructions: str | None = None
    show_votes: bool | None = None
    few_shot: FewShot | None = None


_OF_POLICY = _Overrides.model_fields.keys() & PolicySettings.model_fields.keys()


def _as_mapping(extra_params: Mapping[str, object] | str | None) -> Mapping[str, object]:
    value: object = extra_params
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except ValueError:
            raise ConfigError(
                "the text is no JSON", where="extra_params", fix='give an object such as {"delta": 0.9}'
            ) from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{type(value).__name__} is no JSON object",
            where="extra_params",
            fix='give {"delta": 0.9}, or null',
        )
    return value


def _misfit(policy: PolicySettings, names: Sequence[str]) -> tuple[str, str, str] | None:
    """A policy and a pool that do not go together: the policy's key, what is wrong, what to do."""
    if policy.name == "single":
        if policy.model is None:
            return "model", "is missing", f"name the model that single asks, one of {', '.join(names)}"
        if policy.model not in names:
            return "model", f"{policy.model!r} is not in the pool", did_you_mean(policy.model, names)
    asks = policy.name in ("camvo", "ccamvo") or (policy.name is None and "k_min" in policy.model_fields_set)
    if asks and policy.k_min > len(names):
        return (
            "k_min",
            f"{policy.k_min} is more than the {len(names)} model{'s' * (len(names) != 1)} of the pool",
            f"set k_min to {len(names)} or less, or name more models",
        )
    return None
