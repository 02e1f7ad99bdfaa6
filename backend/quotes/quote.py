"""A quote: what a job will cost, and how long it will take, as numbers that a page or a program can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backend.quotes.target_quote import TargetQuote


@dataclass(frozen=True, slots=True)
class Range:
    """A 95% interval, or a range of what is documented; ``likely`` is ``None`` if nothing says."""

    low: float
    high: float
    likely: float | None = None

    def times(self, other: Range) -> Range:
        """The range of a product."""
        likely = None if self.likely is None else self.likely * other.middle
        return Range(self.low * other.low, self.high * other.high, likely)

    @property
    def middle(self) -> float:
        """What is likely, or the middle."""
        return (self.low + self.high) / 2.0 if self.likely is None else self.likely

    def to_json(self) -> dict[str, float | None]:
        """The range as plain JSON."""
        return {"low": self.low, "likely": self.likely, "high": self.high}

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Range:
        """The inverse of :meth:`to_json`."""
        return cls(said["low"], said["high"], said["likely"])


@dataclass(frozen=True, slots=True)
class ModelQuote:
    """One model, if it is asked about every task.

    Attributes:
        input_tokens: as the provider will probably count them.
        output_tokens: of all answers; a range until answers were measured.
        usd: the price.
        measured: on how many earlier calls the tokens of answers rest.
        hours: at the configured limits; ``None`` without limits, and in batches.
        pack: the most tasks in a prompt; 1 for one.
        asked: how often the policy asks it, in [0, 1]; ``None`` if that is unknown.
    """

    input_tokens: float
    output_tokens: Range
    usd: Range
    measured: int
    hours: float | None
    pack: int = 1
    asked: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The model's part as plain JSON."""
        return {
            "input_tokens": round(self.input_tokens),
            "output_tokens": self.output_tokens.to_json(),
            "usd": self.usd.to_json(),
            "measured_calls": self.measured,
            "hours": self.hours,
            "pack": self.pack,
            "asked": self.asked,
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> ModelQuote:
        """The inverse of :meth:`to_json`."""
        output, usd = Range.of_json(said["output_tokens"]), Range.of_json(said["usd"])
        measured, hours, pack = said["measured_calls"], said["hours"], said["pack"]
        return cls(said["input_tokens"], output, usd, measured, hours, pack, said["asked"])


@dataclass(frozen=True, slots=True)
class Lever:
    """The same votes with batches on or off, and with packing on or off.

    Attributes:
        batch: whether models are asked in batches, as far as their price there is known.
        pack: the most tasks in a prompt; ``None`` for one.
        everyone: $ for asking everyone.
        policy: $ for this policy.
        on: whether the settings say exactly this.
    """

    batch: bool
    pack: int | None
    everyone: float
    policy: float
    on: bool = False

    def to_json(self) -> dict[str, Any]:
        """The lever as plain JSON."""
        return {
            "batch": self.batch,
            "pack": self.pack,
            "on": self.on,
            "everyone_usd": self.everyone,
            "policy_usd": self.policy,
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Lever:
        """The inverse of :meth:`to_json`."""
        return cls(said["batch"], said["pack"], said["everyone_usd"], said["policy_usd"], said["on"])


@dataclass(frozen=True, slots=True)
class QuoteEvidence:
    """What the policy's share rests on.

    Attributes:
        rounds: the rounds of this project that asked everyone; 0 if it is what is documented.
        agreement: how often the label will be that of everyone, in [0, 1]; ``None`` if unknown.
        labelled: how many of these rounds have a human label.
        accuracy: how often the label will be right, by these; ``None`` without any.
    """

    rounds: int
    agreement: float | None = None
    labelled: int = 0
    accuracy: Range | None = None

    def to_json(self) -> dict[str, Any]:
        """The evidence as plain JSON."""
        return {
            "rounds": self.rounds,
            "agreement": self.agreement,
            "labelled": self.labelled,
            "accuracy": None if self.accuracy is None else self.accuracy.to_json(),
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> QuoteEvidence:
        """The inverse of :meth:`to_json`."""
        return cls(said["rounds"], said["agreement"], said["labelled"], _optional(said["accuracy"]))


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """What the tasks of a job that have no label yet will cost.

    Attributes:
        project: the project in the ledger.
        policy: the policy's name.
        tasks: the tasks of the job, equal ones counted once.
        to_come: how many of them are to be asked about.
        unreadable: how many cannot be asked about.
        models: model → its part.
        everyone: $ for asking every model about every task to come.
        bill: $ for this policy.
        hours: for this policy, at the configured limits; ``None`` without limits.
        evidence: what the policy's share rests on.
        levers: ways to pay less.
        spent: $ that the project has cost so far.
        spent_by_job: the part of it that the job's account has paid.
        target: what reaches a target with models and people; ``None`` if nobody asked.
        student: whether a student votes too. A share that rests on rounds of the project leaves it out, so
            the bill may be smaller.
    """

    project: str
    policy: str
    tasks: int
    to_come: int
    unreadable: int
    models: Mapping[str, ModelQuote]
    everyone: Range
    bill: Range
    hours: Range | None
    evidence: QuoteEvidence
    levers: tuple[Lever, ...]
    spent: float
    spent_by_job: float = 0.0
    target: TargetQuote | None = None
    student: bool = False

    def to_json(self) -> dict[str, Any]:
        """The quote as plain JSON (docs/quote.md)."""
        return {
            "project": self.project,
            "policy": self.policy,
            "student": self.student,
            "tasks": self.tasks,
            "to_come": self.to_come,
            "unreadable": self.unreadable,
            "spent_usd": self.spent,
            "spent_by_job_usd": self.spent_by_job,
            "everyone_usd": self.everyone.to_json(),
            "policy_usd": self.bill.to_json(),
            "hours": None if self.hours is None else self.hours.to_json(),
            "evidence": self.evidence.to_json(),
            "models": {name: model.to_json() for name, model in self.models.items()},
            "levers": [lever.to_json() for lever in self.levers],
            "target": None if self.target is None else self.target.to_json(),
        }

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Quote:
        """The inverse of :meth:`to_json`."""
        return cls(
            project=said["project"],
            policy=said["policy"],
            tasks=said["tasks"],
            to_come=said["to_come"],
            unreadable=said["unreadable"],
            models={name: ModelQuote.of_json(model) for name, model in said["models"].items()},
            everyone=Range.of_json(said["everyone_usd"]),
            bill=Range.of_json(said["policy_usd"]),
            hours=_optional(said["hours"]),
            evidence=QuoteEvidence.of_json(said["evidence"]),
            levers=tuple(Lever.of_json(lever) for lever in said["levers"]),
            spent=said["spent_usd"],
            spent_by_job=said["spent_by_job_usd"],
            target=None if said["target"] is None else TargetQuote.of_json(said["target"]),
            student=said.get("student", False),
        )


def _optional(said: Mapping[str, Any] | None) -> Range | None:
    return None if said is None else Range.of_json(said)
