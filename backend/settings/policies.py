"""The ``policy`` section of ``camvo.yaml``, and the policy that it names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal, get_args

from pydantic import BaseModel, Field, model_validator

from backend.settings.mistakes import FROZEN, AtLeastOne, Real, closest, mistake
from camvo.policies.named import parameters_of, policy_by_name
from camvo.policies.policy import Policy
from camvo.state.beta_mixture import EstimatorName
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE

Share = Annotated[Real, Field(ge=0, le=1, allow_inf_nan=False)]
NotNegative = Annotated[Real, Field(ge=0, allow_inf_nan=False)]
Ridge = Annotated[Real, Field(ge=0.01, allow_inf_nan=False)]
Worth = Annotated[Real, Field(gt=0, allow_inf_nan=False)]
PolicyName = Literal["camvo", "ccamvo", "joint", "baseline", "majority", "single"]

_NAMES: Final[tuple[PolicyName, ...]] = get_args(PolicyName)

DEFAULT_POLICY: Final = "joint"
"""The policy without a ``policy`` section, for tasks whose votes are all labels."""

_DEFAULT_WITHOUT_LABELS: Final = "camvo"
"""The policy without a ``policy`` section, for tasks with a vote that is not a label."""

_OF_EVERY_POLICY: Final = frozenset({"name", "lambda_l"})
"""``lambda_l`` is a parameter of the state, which every policy learns with."""

_OF_BOUNDS: Final = frozenset({"alpha", "lambda_r"})
"""Parameters of the lower bounds. Every policy takes them; without δ they only break ties."""

_OF_BATCHES: Final = frozenset({"max_stages"})
"""Parameters of providers' batches, which every policy can be asked in."""


class PolicySettings(BaseModel):
    """How models are chosen and their votes are counted. The names are the paper's symbols.

    A section with any key must name its policy, and may only hold parameters of that policy.
    """

    model_config = FROZEN

    name: PolicyName | None = None
    """Algorithm 1; the same for correlated models; asking while votes are worth their price, by one model of
    votes; Algorithm 2; all models with equal weights; one model.
    ``None`` only without a section (:func:`policy_of`)."""
    delta: Share = 0.97
    """δ: the confidence that the subset asked must reach (``camvo``, ``ccamvo``)."""
    k_min: AtLeastOne = 3
    """The fewest models asked about a question (``camvo``, ``ccamvo``)."""
    agreement: Share | None = None
    """Share of labels that must equal those of the votes of all models (``joint``).

    ``None`` stops by ``worth``.
    """
    max_stages: AtLeastOne = 3
    """The most rounds of providers' batches that a task waits for."""
    worth: Worth | None = None
    """What one more right label is worth, in prices of asking every model (``joint``).

    ``None`` is the policy's own default.
    """
    worth_usd: Worth | None = None
    """The same in dollars (``joint``): it asks less where asking every model is dearer."""
    alpha: NotNegative = 0.25
    """α: how far the lower confidence bound lies below the estimate."""
    lambda_l: Ridge = 1.0
    """λ_L: ridge of the linear models. Below 0.01, withdrawing a label would leave rounding errors."""
    lambda_r: NotNegative = 1.0
    """λ_R: strength of the regularisation of the confidence."""
    n0: AtLeastOne = 10
    """Rewards before a model's history counts (``camvo``, ``ccamvo``)."""
    confidence: Literal["beta", "exact"] = "beta"
    """δ_A by the Beta approximation or by Lemma 1 (``camvo``)."""
    estimator: EstimatorName = "moments"
    """How the Beta mixture is fitted: by the method of moments or by maximum likelihood."""
    model: str | None = None
    """The model that ``single`` asks."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_mapping(cls, data: object) -> object:
        if isinstance(data, str):
            name = closest(data, _NAMES) or _NAMES[0]
            raise mistake("", f"{data!r} is not a mapping", f"write policy: {{name: {name}}}")
        return data

    @model_validator(mode="after")
    def _keys_are_of_the_named_policy(self) -> PolicySettings:
        keys = self.model_fields_set
        if keys and self.name is None:
            raise mistake("name", "is missing", f"add one of {', '.join(_NAMES)}")
        if self.name is not None:
            for key in sorted(keys - _OF_EVERY_POLICY - _OF_BATCHES - parameters_of(self.name)):
                owners = [name for name in _NAMES if key in parameters_of(name)]
                raise mistake(
                    key,
                    f"is a parameter of {' and '.join(owners)}, not of {self.name}",
                    f"remove it, or set policy.name to {' or '.join(owners)}",
                )
        if self.worth is not None and self.worth_usd is not None:
            raise mistake("worth_usd", "is set beside worth", "keep one of both")
        return self


def policy_of(settings: PolicySettings, aggregations: Iterable[Aggregation] = ()) -> Policy:
    """Return the policy for one task.

    This is the named policy. Without a name it is

    - ``camvo`` if any question's votes are not labels: the model of votes of ``joint`` is about labels,
      and without them it would ask every model;
    - ``joint`` otherwise.

    Args:
        settings: the section ``policy``, with the project's overrides.
        aggregations: how the votes on each of the task's questions are counted.
    """
    parameters = settings.model_dump(exclude_none=True)
    name: str = settings.name or DEFAULT_POLICY
    if settings.name is None and any(aggregation != LABEL_VOTE for aggregation in aggregations):
        name = _DEFAULT_WITHOUT_LABELS
    return policy_by_name(name, parameters)


def policy_in_force(settings: PolicySettings) -> tuple[str, list[str]]:
    """Return the policy for votes on labels, and the parameters that are set but have no effect on it."""
    name = settings.name or DEFAULT_POLICY
    effective = parameters_of(name) | _OF_EVERY_POLICY
    if "delta" not in effective:
        effective -= _OF_BOUNDS
    return name, sorted(settings.model_fields_set - effective)
