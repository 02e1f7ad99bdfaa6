"""A quote: what a job will cost, and how long it will take, as numbers that a page or a program can show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final

from sqlalchemy import Connection

from backend.annotation.job import Job, JobQuestion
from backend.ledger import human_annotations
from backend.models import Pool
from backend.models.model import TokenMeter, TokenPrices, count_text, count_tokens
from backend.questions.prompts.messages import prompt_messages
from backend.questions.prompts.packs import TYPICAL_ID, packed_task
from backend.quotes.target_quote import TargetQuote
from backend.settings import ModelSettings
from backend.settings.settings import HumanSettings
from camvo.scores.reviews import seconds_per_label
from camvo.twins.twins import packed_arm


@dataclass(slots=True)
class JobTally:
    """Sums over the tasks of a job. Tokens are by CaMVo's own count, which is the same for all models.

    Attributes:
        listed: all tasks, also those that have their labels.
        unreadable: how many of them cannot be asked about.
        tasks: how many are to come. The sums below are over these.
        input: the input tokens of all tasks, each asked about alone.
        answers: the tokens of a short answer to each task.
        packable: how many of the tasks may share a prompt.
        shared: what the prompts of these tasks have in common, summed over the tasks.
        own: the tokens of these tasks themselves, in a prompt with others.
        unpackable: the input tokens of the other tasks.
    """

    listed: int = 0
    unreadable: int = 0
    tasks: int = 0
    input: int = 0
    answers: int = 0
    packable: int = 0
    shared: int = 0
    own: int = 0
    unpackable: int = 0

    def add(self, pool: Pool, job: Job, questions: Sequence[JobQuestion]) -> None:
        """Count one task that is to come; ``listed`` is left as it is.

        Args:
            pool: counts tokens.
            job: the task.
            questions: the questions that models will be asked about it.
        """
        alone = pool[pool.names[0]].model.count(prompt_messages(questions, job.settings.instructions))
        answer = {question.name: next(iter(question.options), "") for question in questions}
        self.tasks += 1
        self.input += alone
        self.answers += pool[pool.names[0]].model.count(
            [{"role": "assistant", "content": json.dumps(answer)}]
        )
        packed = packed_task(questions, job.settings.instructions)
        if packed is None:
            self.unpackable += alone
            return
        self.packable += 1
        self.shared += count_tokens((packed.system,))
        self.own += count_text(packed.fenced(TYPICAL_ID))

    def packed(self, tasks: float) -> float:
        """Return the input tokens of all tasks if tasks that may share a prompt do so, ``tasks`` in each."""
        if tasks <= 1.0:
            return self.input
        return self.shared / tasks + self.own + self.unpackable

    def calls(self, tasks: float) -> float:
        """Return the number of prompts if tasks that may share a prompt do so, ``tasks`` in each."""
        return self.tasks - self.packable + self.packable / max(tasks, 1.0)

    def plus(self, other: JobTally) -> JobTally:
        """The sums over the tasks of both."""
        mine, others = asdict(self), asdict(other)
        return JobTally(**{name: mine[name] + others[name] for name in mine})


_PACK: Final = 20
"""The tasks in one prompt, for what packing would save at a model that does not pack."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How one model is asked.

    Attributes:
        batch: whether in its provider's batches.
        pack: the most tasks in a prompt; 1 for one.
    """

    batch: bool
    pack: int

    def arm(self, model: ModelSettings) -> str:
        """The name of the arm that votes."""
        return packed_arm(model.name, self.pack) if self.pack > 1 else model.name


def asking_now(tally: JobTally, pool: Pool, model: ModelSettings, batched: Set[str]) -> Asking:
    """How a model is asked by the settings.

    Args:
        tally: knows whether tasks may share prompts.
        pool: the models.
        model: the model.
        batched: the models that are asked in batches.
    """
    return _asking_if(tally, pool, model, batch=model.name in batched, pack=model.pack is not None)


def _asking_if(tally: JobTally, pool: Pool, model: ModelSettings, *, batch: bool, pack: bool) -> Asking:
    """How a model would be asked with batches and packing on or off, as far as it can be."""
    packs = pack and tally.packable > 0 and not model.is_embedded
    return Asking(
        batch and pool[model.name].model.batch_prices is not None, (model.pack or _PACK) if packs else 1
    )


def _meter_of(pool: Pool, model: ModelSettings, asking: Asking) -> TokenMeter:
    """The measurements of an arm, or of its twin if only that was asked so far."""
    own = asking.arm(model)
    known = {model.name, model.packed_name or model.name}
    measured = sorted((name for name in known if pool[name].model.meter.calls), key=lambda name: name != own)
    return pool[measured[0] if measured else own if own in known else model.name].model.meter


def _in_a_prompt(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> float:
    """The tasks in a prompt: as measured, or as many as fit."""
    if asking.pack == 1:
        return 1.0
    meter = _meter_of(pool, model, asking)
    tasks = meter.tasks_in_prompt if meter.tasks_in_prompt > 1.0 else float(asking.pack)
    return max(min(tasks, float(tally.packable)), 1.0)


def _prices_of(pool: Pool, model: ModelSettings, asking: Asking) -> TokenPrices:
    """The prices of one model's tokens."""
    return (pool[model.name].model.batch_prices if asking.batch else None) or pool[model.name].model.prices


_LABELS = 1000
"""The latest labels whose times are read."""


def label_price(connection: Connection, project: str, humans: HumanSettings) -> float | None:
    """The price of one label of a project, $; ``None`` if ``humans`` has none."""
    if humans.price is not None or humans.price_per_minute is None:
        return humans.price
    times = human_annotations.lead_times(connection, project, _LABELS)
    return humans.price_per_minute * seconds_per_label(times) / 60.0


@dataclass(frozen=True, slots=True)
class Range:
    """A 95% interval, or a documented range; ``likely`` is ``None`` if nothing is known about it."""

    low: float
    high: float
    likely: float | None = None

    def times(self, other: Range) -> Range:
        """The range of a product."""
        likely = None if self.likely is None else self.likely * other.middle
        return Range(self.low * other.low, self.high * other.high, likely)

    @property
    def middle(self) -> float:
        """The likely value, or the middle of the range."""
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
    """The evidence for the policy's share.

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
        evidence: the evidence for the policy's share.
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
            student=said["student"],
        )


def _optional(said: Mapping[str, Any] | None) -> Range | None:
    return None if said is None else Range.of_json(said)


def model_quote(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> ModelQuote:
    """What asking one model about every task costs."""
    meter = _meter_of(pool, model, asking)
    tasks = _in_a_prompt(tally, pool, model, asking)
    inputs = tally.packed(tasks) * meter.factor
    outputs = _outputs(tally, pool, model, asking)
    hours = None if asking.batch else _hours(tally.calls(tasks), inputs + outputs.middle, model)
    return ModelQuote(
        inputs, outputs, _usd(pool, model, asking, inputs, outputs), meter.calls, hours, asking.pack
    )


def _usd_if(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> float:
    """The likely $ of asking one model about every task in some way."""
    return model_quote(tally, pool, model, asking).usd.middle


def _usd(pool: Pool, model: ModelSettings, asking: Asking, inputs: float, outputs: Range) -> Range:
    prices, cached = _prices_of(pool, model, asking), inputs * _meter_of(pool, model, asking).cached_share
    return Range(prices.cost(inputs, outputs.low, cached), prices.cost(inputs, outputs.high, cached))


def _outputs(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> Range:
    """The output tokens of all answers: measured, or from a bare answer to the longest one."""
    meter = _meter_of(pool, model, asking)
    if meter.calls:
        measured = tally.tasks * meter.output_tokens
        return Range(measured, measured)
    most = tally.tasks * model.max_tokens
    return Range(min(tally.answers, most), most)


def _hours(calls: float, tokens: float, model: ModelSettings) -> float | None:
    """Return the hours that the calls and tokens take at the model's limits; ``None`` without limits."""
    minutes = []
    if model.rpm is not None:
        minutes.append(calls / model.rpm)
    if model.tpm is not None:
        minutes.append(tokens / model.tpm)
    return max(minutes) / 60.0 if minutes else None


def total(ranges: Iterable[Range]) -> Range:
    """The sum of ranges."""
    listed = list(ranges)
    return Range(sum(one.low for one in listed), sum(one.high for one in listed))


def levers(  # noqa: PLR0917 - a job, and how it is asked now
    tally: JobTally,
    pool: Pool,
    models: Sequence[ModelSettings],
    now: Mapping[str, Asking],
    asked: Mapping[str, float],
    bill: float,
) -> tuple[Lever, ...]:
    """What the job costs with batches and packing on and off; ways that change nothing are left out.

    Args:
        tally: the tasks.
        pool: the models.
        models: their settings.
        now: model → how it is asked by the settings.
        asked: model → how often the policy asks it, in [0, 1]; empty if that is unknown.
        bill: the likely $ of the policy as it is set.
    """
    found: list[Lever] = []
    ways: set[tuple[Asking, ...]] = set()
    share = {model.name: asked.get(model.name, 1.0) for model in models}
    before = sum(share[model.name] * _usd_if(tally, pool, model, now[model.name]) for model in models)
    for batch, pack in product((False, True), repeat=2):
        way = {model.name: _asking_if(tally, pool, model, batch=batch, pack=pack) for model in models}
        if tuple(way.values()) in ways:
            continue
        ways.add(tuple(way.values()))
        usd = {model.name: _usd_if(tally, pool, model, way[model.name]) for model in models}
        policy = sum(share[name] * usd[name] for name in usd)
        sizes = sorted({asking.pack for asking in way.values()} - {1})
        found.append(
            Lever(
                batch,
                sizes[-1] if sizes else None,
                sum(usd.values()),
                bill * policy / before if before else 0.0,
                on=way == dict(now),
            )
        )
    return tuple(found)
