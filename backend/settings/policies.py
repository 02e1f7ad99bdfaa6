"""The ``policy`` section of ``camvo.yaml``, and the policy that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
    model_validator,
)

from backend.settings.mistakes import FROZEN, AtLeastOne, Real, Whole, closest, mistake, shown
from camvo.policies.named import POLICIES, parameters_of, policy_by_name
from camvo.policies.parameters import DEFAULT, ByLabel, Declaration, contradiction, declared_by
from camvo.policies.policy import Policy
from camvo.votes.aggregation import Aggregation
from camvo.votes.registry import can_stop_early

Share = Annotated[Real, Field(ge=0, le=1, allow_inf_nan=False)]
NotNegative = Annotated[Real, Field(ge=0, allow_inf_nan=False)]
_Ridge = Annotated[Real, Field(ge=0.01, allow_inf_nan=False)]
_PolicyName = Literal["camvo", "ccamvo", "joint", "baseline", "majority", "single"]

_NAMES: Final[tuple[_PolicyName, ...]] = get_args(_PolicyName)

_DEFAULT_POLICY: Final = "joint"
"""The policy without a ``policy`` section, for tasks whose votes are all labels, ordered or not."""

_DEFAULT_WITHOUT_LABELS: Final = "camvo"
"""The policy without a ``policy`` section, for tasks with a vote that is not a label."""

_OF_EVERY_POLICY: Final = frozenset({"name", "lambda_l"})
"""``lambda_l`` is a parameter of the state, which every policy learns with."""

_OF_BOUNDS: Final = frozenset({"alpha", "lambda_r"})
"""Parameters of the lower bounds. Every policy takes them; without δ they only break ties."""

_OF_BATCHES: Final = frozenset({"max_stages"})
"""Parameters of providers' batches, which every policy can be asked in."""


def _kind_of(parameter: Declaration) -> Any:
    """Return the type that checks a parameter's value, with errors in our words."""
    about = parameter.about
    if parameter.choices:
        return Literal[about.in_settings or parameter.choices]
    if parameter.kind not in (int, float):
        return parameter.kind
    bounds: dict[str, Any] = {"ge": about.least, "gt": about.above, "le": about.most, "lt": about.below}
    if parameter.kind is int:
        return Annotated[Whole, Field(**bounds)]
    number = Annotated[Real, Field(**bounds, allow_inf_nan=False)]
    return _by_label(parameter, number) if about.by_label else number


def _by_label(parameter: Declaration, number: Any) -> Any:
    """The type of a number, or of numbers by label."""

    def read(value: object, as_number: ValidatorFunctionWrapHandler) -> object:
        if not isinstance(value, Mapping) and not parameter.about.only_by_label:
            return as_number(value)
        if not isinstance(value, Mapping) or not value:
            raise mistake("", "names no label", "give labels and numbers, as {label: number}")
        if parameter.about.only_by_label and DEFAULT in value:
            raise mistake(DEFAULT, "stands for no label here", "name each label")
        for label, each in value.items():
            if not isinstance(label, str):
                raise mistake(str(label), f"the label {label!r} is not text", "put the label in quotes")
            if isinstance(each, bool) or not isinstance(each, int | float):
                raise mistake(label, f"{shown(each)} is not a number", "give a number")
            if wrong := parameter.out_of_range(each):
                raise mistake(label, f"{each!r} is out of range", f"a {parameter.name} {wrong}")
        return ByLabel({str(label): float(each) for label, each in value.items()})

    return Annotated[number, WrapValidator(read), PlainSerializer(lambda value: value, return_type=Any)]


def _section_of(policies: Iterable[type[Any]]) -> type[BaseModel]:
    """Return the model of all parameters of these policy classes, with the policies' own defaults."""
    made: dict[str, Any] = {}
    for name, parameter in declared_by(policies).items():
        kind = _kind_of(parameter)
        kind = kind | None if parameter.default is None else kind
        made[name] = (kind, Field(parameter.default, description=parameter.about.help))
    return create_model("Parameters", __config__=FROZEN, **made)


def _overrides_of(policies: Iterable[type[Any]]) -> type[BaseModel]:
    """Return the model of the parameters that a project may override; ``None`` means absent."""
    made: dict[str, Any] = {
        name: (_kind_of(parameter) | None, None)
        for name, parameter in declared_by(policies).items()
        if parameter.about.per_project
    }
    return create_model("Overrides", __config__=FROZEN, **made)


_CLASSES: Final = [POLICIES[name] for name in _NAMES]

_PARAMETERS: Final = frozenset(declared_by(_CLASSES))

if TYPE_CHECKING:

    class _Parameters(BaseModel):
        """The parameters of the policies, which only exist when the program runs."""

        def __getattr__(self, name: str) -> Any: ...

    _Overridable = _Parameters
else:
    _Parameters, _Overridable = _section_of(_CLASSES), _overrides_of(_CLASSES)


class PolicySettings(_Parameters):
    """How models are chosen and their votes are counted. The names are the paper's symbols.

    A section with any key must name its policy, and may only hold parameters of that policy
    (:mod:`camvo.policies.parameters`). A parameter that is null has its default.
    """

    model_config = FROZEN

    name: _PolicyName | None = None
    """Algorithm 1; the same for correlated models; asking while votes are worth their price, by one model of
    votes; Algorithm 2; all models with equal weights; one model.
    ``None`` only without a section (:func:`policy_of`)."""
    max_stages: AtLeastOne = 3
    """The most rounds of providers' batches that a task waits for."""
    lambda_l: _Ridge = 1.0
    """λ_L: ridge of the linear models. Below 0.01, withdrawing a label would leave rounding errors."""

    def __hash__(self) -> int:
        # Mappings, such as the worth by label, have no hash; __eq__ compares all parameters.
        return hash((self.name, self.max_stages, self.lambda_l))

    @model_validator(mode="before")
    @classmethod
    def _is_a_mapping(cls, data: object) -> object:
        if isinstance(data, str):
            name = closest(data, _NAMES) or _NAMES[0]
            raise mistake("", f"{data!r} is not a mapping", f"write policy: {{name: {name}}}")
        if isinstance(data, Mapping) and data.get("name") is not None:
            return {key: value for key, value in data.items() if value is not None or key not in _PARAMETERS}
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
        if {"worth", "worth_usd"} <= keys:
            raise mistake("worth_usd", "is set beside worth", "keep one of both")
        if found := self.contradiction:
            raise mistake(*found)
        return self

    @property
    def contradiction(self) -> tuple[str, str, str] | None:
        """The parameter that contradicts another, what is wrong, and what to do; ``None`` if none does."""
        if "agreement" not in parameters_of(self.name or _DEFAULT_POLICY):
            return None  # a project may override it all the same, which has no effect
        return contradiction(self.worth, self.worth_usd, self.recall, self.agreement)

    @property
    def by_label(self) -> dict[str, frozenset[str]]:
        """Parameter → the labels that it names, for parameters with values by label."""
        values = {name: getattr(self, name) for name in sorted(_PARAMETERS)}
        return {
            name: frozenset(value.keys() - {DEFAULT})
            for name, value in values.items()
            if isinstance(value, Mapping)
        }


class PolicyOverrides(_Overridable):
    """What a project may override of its policy; null means absent."""

    model_config = FROZEN

    max_stages: AtLeastOne | None = None


def policy_of(settings: PolicySettings, aggregations: Iterable[Aggregation] = ()) -> Policy:
    """Return the policy for one task.

    This is the named policy. Without a name it is

    - ``camvo`` if any question's votes are neither labels, ordered or not, nor spans: ``joint`` has no model
      of other votes and would ask every model;
    - ``joint`` otherwise.

    Args:
        settings: the section ``policy``, with the project's overrides.
        aggregations: how the votes on each of the task's questions are counted.
    """
    name: str = settings.name or _DEFAULT_POLICY
    if settings.name is None and not all(map(can_stop_early, aggregations)):
        name = _DEFAULT_WITHOUT_LABELS
    return _policy_by_settings(name, settings)


@lru_cache(maxsize=256)
def _policy_by_settings(name: str, settings: PolicySettings) -> Policy:
    """The policy of this name; a project's tasks share it, as it holds parameters only."""
    return policy_by_name(name, settings.model_dump(exclude_unset=True, exclude_none=True))


def policy_in_force(settings: PolicySettings) -> tuple[str, list[str]]:
    """Return the policy for votes on labels, and the parameters that are set but have no effect on it."""
    name = settings.name or _DEFAULT_POLICY
    effective = parameters_of(name) | _OF_EVERY_POLICY
    if "delta" not in effective:
        effective -= _OF_BOUNDS
    return name, sorted(settings.model_fields_set - effective)
