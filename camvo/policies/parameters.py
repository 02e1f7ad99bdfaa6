"""The parameters of the policies, each declared once: its type, default, bounds and help.

A policy class inherits its parameters from a class here. The section ``policy`` of ``camvo.yaml``, the
overrides of a project and the options of ``camvo replay`` are made from these fields. A field without a
:class:`Parameter` belongs to the library only. This module has no heavy imports, so that the help of
``camvo replay`` appears quickly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

from camvo.errors import InvalidParameterError

DEFAULT: Final = "default"
"""The key, in a parameter that takes values by label, for all labels without one of their own."""


class ByLabel(dict[str, float]):
    """Values by label; never changed once made, so that it can be hashed.

    >>> ByLabel(Fraud=50, default=10).of("Spam", 1.0)
    10
    """

    def of(self, label: str, otherwise: float) -> float:
        """The value of a label: its own, the default one, or ``otherwise``."""
        return self.get(label, self.get(DEFAULT, otherwise))

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        return hash(frozenset(self.items()))

    def __str__(self) -> str:
        return ", ".join(f"{label} {value:g}" for label, value in self.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Facts about a parameter beyond its name, type and default, for use in ``Annotated``.

    Attributes:
        help: one line for the help of ``camvo replay``.
        symbol: its name in errors, if that is not the field's.
        least: the smallest value.
        above: a number that the value must exceed.
        most: the largest value.
        below: a number that the value must not reach.
        in_replay: whether ``camvo replay`` has an option for it.
        sweep: an example of the list of values that ``camvo replay`` takes; empty if it takes one value.
        in_settings: the choices that ``camvo.yaml`` takes; empty for all.
        per_project: whether a project may override it.
        by_label: whether its value may also be a mapping from labels to values (:class:`ByLabel`).
        only_by_label: whether it must be one, without a default.
    """

    help: str
    symbol: str = ""
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    in_replay: bool = True
    sweep: str = ""
    in_settings: tuple[str, ...] = ()
    per_project: bool = True
    by_label: bool = False
    only_by_label: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared parameter of a policy.

    Attributes:
        name: the field's name.
        kind: the type of a value, such as ``float`` or a ``Literal``, without ``None``.
        default: the default; ``None`` if there is none.
        optional: whether ``None`` is a value.
        about: the rest.
    """

    name: str
    kind: Any
    default: Any
    optional: bool
    about: Parameter

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a ``Literal``; empty for other types."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def mistake(self, value: Any) -> str | None:
        """Say which values are allowed; ``None`` if this is one."""
        about = self.about
        if value is None and self.optional:
            return None
        if about.by_label and isinstance(value, Mapping):
            wrong = ((label, self.out_of_range(each)) for label, each in value.items())
            found = next((f"of {label!r} {what}" for label, what in wrong if what), None)
            unnamed = not value or (about.only_by_label and DEFAULT in value)
            return "must name labels" if unnamed else found
        if about.only_by_label:
            return f"must be by label, as {{'Fraud': {value!r}}}"
        if self.choices:
            return None if value in self.choices else f"must be {_alternatives(self.choices)}"
        return self.out_of_range(value) if self.kind in {int, float} else None

    def out_of_range(self, value: float) -> str | None:
        """Say which numbers are allowed, of one label where values are by label; ``None`` if this is one."""
        about = self.about
        inside = (
            math.isfinite(value)
            and (about.least is None or value >= about.least)
            and (about.above is None or value > about.above)
            and (about.most is None or value <= about.most)
            and (about.below is None or value < about.below)
        )
        return None if inside else f"must be {self._range()}"

    def _range(self) -> str:
        least, above, most = self.about.least, self.about.above, self.about.most
        if self.about.below is not None and above is not None:
            return f"in ({above:g}, {self.about.below:g})"
        if most is not None and least is not None:
            return f"in [{least:g}, {most:g}]"
        if most is not None and above is not None:
            return f"in ({above:g}, {most:g}]"
        bounds = []
        if least is not None:
            bounds.append("not negative" if least == 0 else f"at least {least:g}")
        if above is not None:
            bounds.append("positive" if above == 0 else f"more than {above:g}")
        if most is not None:
            bounds.append(f"at most {most:g}")
        return " and ".join([*bounds, *(["finite"] if self.kind is float or not bounds else [])])


def _alternatives(choices: Iterable[str]) -> str:
    *others, last = (f'"{choice}"' for choice in choices)
    return f"{', '.join(others)} or {last}" if others else last


@lru_cache(maxsize=256)
def _declared(policy: type[Any]) -> Mapping[str, Declaration]:
    """The declared parameters of a policy class, or of a class of parameters, by name."""
    hints = get_type_hints(policy, include_extras=True)
    found = {}
    for field in fields(policy):
        about = next((each for each in get_args(hints[field.name])[1:] if isinstance(each, Parameter)), None)
        if field.init and about is not None:
            kind, *_ = get_args(hints[field.name])
            optional = NoneType in get_args(kind)
            if about.only_by_label:
                kind = float
            elif optional or about.by_label:
                (kind,) = (each for each in get_args(kind) if each not in {NoneType, ByLabel})
            default = None if field.default is MISSING else field.default
            found[field.name] = Declaration(field.name, kind, default, optional, about)
    return found


def declared_by(policies: Iterable[type[Any]]) -> dict[str, Declaration]:
    """The declared parameters of several classes, by name. Equal names have equal declarations."""
    found: dict[str, Declaration] = {}
    policy: Any
    for policy in policies:
        for name, parameter in _declared(policy).items():
            found.setdefault(name, parameter)
    return found


@dataclass(frozen=True, kw_only=True)
class EnsembleParameters:
    """The parameters of every policy."""

    alpha: Annotated[
        float, Parameter(help="α: width of the confidence bound.", symbol="α", least=0, per_project=False)
    ] = 0.25
    lambda_r: Annotated[
        float,
        Parameter(
            help="λ_R: strength of the confidence's regularisation towards ½.",
            symbol="λ_R",
            least=0,
            per_project=False,
        ),
    ] = 1.0
    estimator: Annotated[
        Literal["moments", "mle"],
        Parameter(help="How the Beta distributions are estimated.", per_project=False),
    ] = "moments"

    def __post_init__(self) -> None:
        """Check the declared parameters.

        A mapping becomes a :class:`ByLabel`, which can be hashed.
        """
        policy: Any = type(self)  # mypy does not take a type for hashable
        for name, parameter in _declared(policy).items():
            value = getattr(self, name)
            if parameter.about.by_label and isinstance(value, Mapping):
                value = ByLabel(value)
                object.__setattr__(self, name, value)
            if wrong := parameter.mistake(value):
                raise InvalidParameterError(f"{parameter.about.symbol or name} {wrong}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class CaMVoParameters(EnsembleParameters):
    """The parameters of CaMVo and CCaMVo."""

    delta: Annotated[
        float,
        Parameter(
            help="δ of camvo and ccamvo: the confidence to reach.",
            symbol="δ",
            least=0,
            most=1,
            sweep="0.9,0.95",
        ),
    ] = 0.97
    k_min: Annotated[
        int, Parameter(help="Fewest models that camvo and ccamvo ask.", least=1, sweep="1,3")
    ] = 3
    n0: Annotated[
        int,
        Parameter(
            help="Rewards before a model's history counts; until then it is always asked.",
            symbol="n₀",
            least=1,
            per_project=False,
        ),
    ] = 10
    confidence: Annotated[
        Literal["beta", "exact", "copula"],
        Parameter(
            help="How camvo computes a subset's confidence.", in_settings=("beta", "exact"), per_project=False
        ),
    ] = "beta"


WORTH: Final = 10.0
"""The default worth of a right label, in prices of asking every model."""


@dataclass(frozen=True, kw_only=True)
class JointParameters(EnsembleParameters):
    """The parameters of the joint policy."""

    worth: Annotated[
        float | ByLabel,
        Parameter(
            help="Value of one more right label, in prices of asking every model; for joint.",
            above=0,
            by_label=True,
        ),
    ] = WORTH
    worth_usd: Annotated[
        float | ByLabel | None,
        Parameter(
            help="Value of one more right label, in dollars; for joint.",
            above=0,
            in_replay=False,
            by_label=True,
        ),
    ] = None
    recall: Annotated[
        ByLabel | None,
        Parameter(
            help="Share of the tasks with a label that must be found, by label; for joint.",
            above=0,
            below=1,
            in_replay=False,
            by_label=True,
            only_by_label=True,
        ),
    ] = None
    agreement: Annotated[
        float | None,
        Parameter(
            help="Share of labels that must equal the vote of all models; for joint, in place of its worth.",
            least=0,
            most=1,
            sweep="0.98,0.99",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the parameters, and those that exclude one another."""
        super().__post_init__()
        if found := contradiction(self.worth, self.worth_usd, self.recall, self.agreement):
            raise InvalidParameterError(" ".join(found[:2]))


def contradiction(
    worth: object, worth_usd: object, recall: object, agreement: object
) -> tuple[str, str, str] | None:
    """Say which parameter of the joint policy contradicts another: its name, what is wrong, what to do."""
    if isinstance(worth_usd, Mapping) and DEFAULT not in worth_usd:
        return "worth_usd", "names no default", "add default, the worth of all other labels in dollars"
    given = (("worth", worth), ("worth_usd", worth_usd), ("recall", recall))
    named = [name for name, each in given if isinstance(each, Mapping)]
    if named and agreement is not None:
        wrong = "is by label beside agreement, which keeps the labels of all votes"
        return named[-1], wrong, "keep one of both"
    return None


@dataclass(frozen=True, kw_only=True)
class OneModelParameters(EnsembleParameters):
    """The parameters of the policies that ask one model per task after first rounds that ask more."""

    first: Annotated[
        int,
        Parameter(
            help="First tasks about which best-single asks every model, and router both of its models.",
            least=0,
        ),
    ] = 200


CLASSES: Final[tuple[type[EnsembleParameters], ...]] = (CaMVoParameters, JointParameters, OneModelParameters)
"""All classes of parameters."""
