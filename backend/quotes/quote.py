"""A quote: what a job will cost, and how long it will take. docs/quote.md says what each number means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from typing import Annotated, Any, Final

from pydantic import Field, PlainSerializer, TypeAdapter
from sqlalchemy import Connection

from backend.annotation.asking import PackedArms, expected_comparisons
from backend.annotation.job import Job, JobQuestion
from backend.ledger.answers import PackChecks
from backend.ledger.human_annotations import Annotations
from backend.models import Pool
from backend.models.model import Model, count_text, count_tokens
from backend.models.prices import TokenMeter
from backend.questions.prompts.messages import prompt_messages
from backend.questions.prompts.packs import packed_task
from backend.questions.question import asked_together
from backend.settings import ModelSettings
from backend.settings.settings import HumanSettings
from camvo.scores.reviews import seconds_per_label
from camvo.twins import packed_arm

NONE_TO_COME: Final = "no task is to come; camvo report says how many labels are right"


@dataclass(frozen=True, slots=True)
class MixQuote:
    """The mix that is surely the cheapest (``usd_sure``), in dollars and labels."""

    models_usd: float
    labels: int
    labels_sure: int
    label_usd: float
    usd: float
    usd_sure: float
    people_alone_usd: float
    setting: str | None


@dataclass(frozen=True, slots=True)
class TargetQuote:
    """The answer to ``--target``.

    Attributes:
        target: the share of all labels that is to be right.
        mix: the cheapest mix; ``None`` if too little is known.
        labelled: the number of labelled tasks that it is based on, or could be.
        unknown: why there is none, and what to do; ``None`` if there is one.
    """

    target: float
    mix: MixQuote | None
    labelled: int = 0
    unknown: str | None = None


@dataclass(slots=True)
class JobTally:
    """Sums over the tasks of a job. Tokens are by CaMVo's own count, which is the same for all models.

    Attributes:
        listed: all tasks, also those that have their labels.
        unreadable: how many of them cannot be asked about.
        tasks: how many are to come. The sums below are over these.
        input: the input tokens of all tasks, each asked about alone.
        answers: the tokens of a short answer to each task.
        prompts: how many prompts these take: one for each step in which a task's questions are asked.
        packable: how many of the prompts may be shared by several tasks.
        shared: what the prompts of these tasks have in common, summed over the tasks.
        own: the tokens of these tasks themselves, in a prompt with others.
        unpackable: the input tokens of the other tasks.
        too_long: how many tasks have a prompt that is longer than the context window of a model.
        too_long_input: the input tokens of these prompts.
    """

    listed: int = 0
    unreadable: int = 0
    tasks: int = 0
    input: int = 0
    answers: int = 0
    prompts: int = 0
    packable: int = 0
    shared: int = 0
    own: int = 0
    unpackable: int = 0
    too_long: int = 0
    too_long_input: int = 0

    def add(self, pool: Pool, job: Job, questions: Sequence[JobQuestion]) -> None:
        """Count one task that is to come; ``listed`` is left as it is.

        Questions under a condition are counted as if it held: in a prompt of their own, since they are asked
        once those that they depend on are decided.
        """
        count = pool[pool.names[0]].model.count
        stages = asked_together(questions)
        prompts = [count(prompt_messages(stage, job.settings.instructions)) for stage in stages]
        _, most = pool.shortest_context
        alone, long = sum(prompts), [tokens for tokens in prompts if tokens > most]
        answer = {question.name: next(iter(question.options), "") for question in questions}
        self.tasks += 1
        self.prompts += len(stages)
        self.input += alone
        self.too_long += bool(long)
        self.too_long_input += sum(long)
        self.answers += count([{"role": "assistant", "content": json.dumps(answer)}])
        packs = [packed_task(stage, job.settings.instructions) for stage in stages]
        packed = [pack for pack in packs if pack is not None]
        if len(packed) < len(packs):
            self.unpackable += alone
            return
        self.packable += len(stages)
        for pack in packed:
            shared, own = pack.parts()
            self.shared += count_tokens(shared)
            self.own += count_text(own)

    def packed(self, tasks: float) -> float:
        """Return the input tokens of all tasks if tasks that may share a prompt do so, ``tasks`` in each."""
        if tasks <= 1.0:
            return self.input
        return self.shared / tasks + self.own + self.unpackable

    def calls(self, tasks: float) -> float:
        """Return the number of prompts if tasks that may share a prompt do so, ``tasks`` in each."""
        return self.prompts - self.packable + self.packable / max(tasks, 1.0)

    def plus(self, other: JobTally) -> JobTally:
        """The sums over the tasks of both."""
        mine, others = asdict(self), asdict(other)
        return JobTally(**{name: mine[name] + others[name] for name in mine})


_LABELS = 1000
"""The latest labels whose times are read."""


def label_price(connection: Connection, project: str, humans: HumanSettings) -> float | None:
    """The price of one label of a project, $; ``None`` if ``humans`` has none."""
    if humans.price is not None or humans.price_per_minute is None:
        return humans.price
    times = Annotations(connection, project).lead_times(_LABELS)
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

    def plus(self, other: Range) -> Range:
        """The range of a sum."""
        likely = None if self.likely is None else self.likely + other.middle
        return Range(self.low + other.low, self.high + other.high, likely)

    def scaled(self, factor: float) -> Range:
        """The range of so many times the same."""
        return self.times(Range(factor, factor))

    @property
    def middle(self) -> float:
        """The likely value, or the middle of the range."""
        return (self.low + self.high) / 2.0 if self.likely is None else self.likely


def _named(key: str) -> Any:
    """A field with another name in the quote's JSON."""
    return Field(serialization_alias=key, validation_alias=key)


@dataclass(frozen=True, slots=True)
class ModelQuote:
    """One model, if it is asked about every task.

    ``compared`` is the part of ``usd`` for packed tasks about which the model is asked alone, too.
    """

    input_tokens: Annotated[float, PlainSerializer(round, when_used="json")]
    output_tokens: Range
    usd: Range
    measured: Annotated[int, _named("measured_calls")]
    hours: float | None
    pack: int = 1
    asked: float | None = None
    compared: Annotated[Range, _named("compared_usd")] = Range(0.0, 0.0)

    @property
    def votes_usd(self) -> Range:
        """The price of the votes alone."""
        return Range(self.usd.low - self.compared.low, self.usd.high - self.compared.high)


@dataclass(frozen=True, slots=True)
class Lever:
    """The same votes with batches on or off, and with packing on or off."""

    batch: bool
    pack: int | None
    everyone: Annotated[float, _named("everyone_usd")]
    policy: Annotated[float, _named("policy_usd")]
    on: bool = False


@dataclass(frozen=True, slots=True)
class QuoteEvidence:
    """The evidence for the policy's share."""

    rounds: int
    agreement: float | None = None
    labelled: int = 0
    accuracy: Range | None = None
    replayable: bool = False


@dataclass(frozen=True, slots=True)
class _LongTasks:
    """The tasks whose prompts are longer than the context window of ``model``, which is ``context`` tokens.

    ``usd`` is the price of asking every model about them; ``first`` says where the first one is, if known.
    """

    tasks: int
    model: str
    context: int
    usd: float
    first: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """What the tasks of a job that have no label yet will cost."""

    project: str
    policy: str
    tasks: int
    to_come: int
    unreadable: int
    models: Mapping[str, ModelQuote]
    everyone: Annotated[Range, _named("everyone_usd")]
    bill: Annotated[Range, _named("policy_usd")]
    hours: Range | None
    evidence: QuoteEvidence
    levers: tuple[Lever, ...]
    spent: Annotated[float, _named("spent_usd")]
    spent_by_job: Annotated[float, _named("spent_by_job_usd")] = 0.0
    target: TargetQuote | None = None
    student: bool = False
    too_long: _LongTasks | None = None

    def to_json(self) -> dict[str, Any]:
        """The quote as plain JSON (docs/quote.md)."""
        said: dict[str, Any] = _json().dump_python(self, mode="json", by_alias=True)
        return said

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Quote:
        """The inverse of :meth:`to_json`."""
        return _json().validate_python(said)


@cache
def _json() -> TypeAdapter[Quote]:
    return TypeAdapter(Quote)


_PACK: Final = 20
"""The tasks in one prompt, for what packing would save at a model that does not pack."""


@dataclass(frozen=True, slots=True)
class _AskingMode:
    """How one model is asked: whether in its provider's batches, and the most tasks in a prompt."""

    batch: bool
    pack: int

    def arm(self, model: ModelSettings) -> str:
        """The name of the arm that votes."""
        return packed_arm(model.name, self.pack) if self.pack > 1 else model.name


@dataclass(frozen=True, slots=True)
class ComparedPacks:
    """How often each packed arm's vote was compared with that of its model, and the arms asked no more."""

    compared: Mapping[str, int]
    unpacked: Set[str]

    def to_come(self, arm: str, tasks: float) -> float:
        """How many of so many packed tasks an arm's model is asked about alone, too."""
        return expected_comparisons(tasks, self.compared[arm])

    @classmethod
    def of(
        cls,
        connection: Connection,
        project: str,
        models: Sequence[ModelSettings],
        questions: Sequence[JobQuestion],
    ) -> ComparedPacks:
        """Those of some models on some questions."""
        known = PackedArms.of(PackChecks(connection, project))
        arms = [_AskingMode(batch=False, pack=model.pack or _PACK).arm(model) for model in models]
        return cls({arm: known.fewest(arm, questions) for arm in arms}, known.unpacked)


@dataclass(frozen=True, slots=True)
class JobPrices:
    """What asking the models about a job's tasks costs, as they are asked now or as they could be."""

    tally: JobTally
    pool: Pool
    models: Sequence[ModelSettings]
    batched: Set[str]
    packs: ComparedPacks

    def arms(self) -> dict[str, str]:
        """Arm that votes by the settings → the name of its model."""
        return {self._now(model).arm(model): model.name for model in self.models}

    def quotes(self) -> dict[str, ModelQuote]:
        """What asking each model about every task costs by the settings."""
        return {model.name: self._quote(model, self._now(model)) for model in self.models}

    def compared(self, model: ModelSettings, quote: ModelQuote, asked: float) -> Range:
        """The price of the comparisons if a model is asked about a share of the tasks."""
        if quote.pack == 1:
            return quote.compared
        arm = packed_arm(model.name, quote.pack)
        all_of_them = self.packs.to_come(arm, self.tally.packable)
        return quote.compared.scaled(self.packs.to_come(arm, asked * self.tally.packable) / all_of_them)

    def long_tasks(self) -> _LongTasks | None:
        """The tasks that are too long for a model; ``None`` without any."""
        if not self.tally.too_long:
            return None
        usd = sum(
            self._model(model)
            .prices_of(batched=self._now(model).batch)
            .cost(self.tally.too_long_input * self._meter(model, self._now(model)).factor, 0.0)
            for model in self.models
        )
        return _LongTasks(self.tally.too_long, *self.pool.shortest_context, usd)

    def levers(self, asked: Mapping[str, float], bill: float) -> tuple[Lever, ...]:
        """What the job costs with batches and packing on and off; ways that change nothing are left out.

        Args:
            asked: model → the share of the tasks about which the policy asks it; 1 where it is not known.
            bill: what the policy costs as the models are asked now, in $.
        """
        found: list[Lever] = []
        ways: set[tuple[_AskingMode, ...]] = set()
        now = {model.name: self._now(model) for model in self.models}
        share = {model.name: asked.get(model.name, 1.0) for model in self.models}
        before = sum(share[model.name] * self._usd_if(model, now[model.name]) for model in self.models)
        batched = {
            model.name
            for model in self.models
            if self._model(model).saves_in_batches or now[model.name].batch
        }
        for batch, pack in product((False, True), repeat=2):
            way = {
                model.name: self._asking_if(model, batch=batch and model.name in batched, pack=pack)
                for model in self.models
            }
            if tuple(way.values()) in ways:
                continue
            ways.add(tuple(way.values()))
            usd = {model.name: self._usd_if(model, way[model.name]) for model in self.models}
            policy = sum(share[name] * usd[name] for name in usd)
            sizes = sorted({asking.pack for asking in way.values()} - {1})
            found.append(
                Lever(
                    batch,
                    sizes[-1] if sizes else None,
                    sum(usd.values()),
                    bill * policy / before if before else 0.0,
                    on=way == now,
                )
            )
        return tuple(found)

    def _now(self, model: ModelSettings) -> _AskingMode:
        """How a model is asked by the settings."""
        return self._asking_if(model, batch=model.name in self.batched, pack=model.pack is not None)

    def _asking_if(self, model: ModelSettings, *, batch: bool, pack: bool) -> _AskingMode:
        """How a model would be asked with batches and packing on or off, as far as it can be."""
        batches = batch and self._model(model).batch_prices is not None
        packed = _AskingMode(batches, model.pack or _PACK)
        can_pack = self.tally.packable > 0 and not model.is_embedded
        packs = pack and can_pack and packed.arm(model) not in self.packs.unpacked
        return packed if packs else _AskingMode(batches, 1)

    def _model(self, settings: ModelSettings) -> Model:
        return self.pool[settings.name].model

    def _meter(self, model: ModelSettings, asking: _AskingMode) -> TokenMeter:
        """The measurements of an arm, or of its twin if only that was asked so far."""
        own = asking.arm(model)
        known = {model.name, model.packed_name or model.name}
        measured = sorted(
            (name for name in known if self.pool[name].model.meter.calls), key=lambda name: name != own
        )
        return self.pool[measured[0] if measured else own if own in known else model.name].model.meter

    def _quote(self, model: ModelSettings, asking: _AskingMode) -> ModelQuote:
        meter, tasks = self._meter(model, asking), self._in_a_prompt(model, asking)
        inputs, outputs = self.tally.packed(tasks) * meter.factor, self._outputs(model, asking)
        usd = self._usd(model, asking, inputs, outputs)
        calls, compared = self.tally.calls(tasks), Range(0.0, 0.0)
        if asking.pack > 1:
            singly = _AskingMode(asking.batch, 1)
            more = self.packs.to_come(asking.arm(model), self.tally.packable)
            tokens = (self.tally.input - self.tally.unpackable) * self._meter(model, singly).factor
            more_inputs = more / self.tally.packable * tokens
            more_outputs = self._outputs(model, singly).scaled(more / self.tally.prompts)
            compared = self._usd(model, singly, more_inputs, more_outputs)
            inputs, outputs, usd = inputs + more_inputs, outputs.plus(more_outputs), usd.plus(compared)
            calls += more
        hours = None if asking.batch else _hours(calls, inputs + outputs.middle, model)
        return ModelQuote(inputs, outputs, usd, meter.calls, hours, asking.pack, compared=compared)

    def _usd(self, model: ModelSettings, asking: _AskingMode, inputs: float, outputs: Range) -> Range:
        """The price of so many tokens."""
        prices = self._model(model).prices_of(batched=asking.batch)
        cached = inputs * self._meter(model, asking).cached_share
        return Range(prices.cost(inputs, outputs.low, cached), prices.cost(inputs, outputs.high, cached))

    def _usd_if(self, model: ModelSettings, asking: _AskingMode) -> float:
        """The likely $ of asking one model about every task in some way."""
        return self._quote(model, asking).usd.middle

    def _in_a_prompt(self, model: ModelSettings, asking: _AskingMode) -> float:
        """The tasks in a prompt: as measured, or as many as fit."""
        if asking.pack == 1:
            return 1.0
        meter = self._meter(model, asking)
        tasks = meter.tasks_in_prompt if meter.tasks_in_prompt > 1.0 else float(asking.pack)
        return max(min(tasks, float(self.tally.packable)), 1.0)

    def _outputs(self, model: ModelSettings, asking: _AskingMode) -> Range:
        """The output tokens of all answers: measured, or from a bare answer to the longest one."""
        meter = self._meter(model, asking)
        if meter.calls:
            measured = self.tally.prompts * meter.output_tokens
            return Range(measured, measured)
        most = self.tally.prompts * model.max_tokens
        return Range(min(self.tally.answers, most), most)


def _hours(calls: float, tokens: float, model: ModelSettings) -> float | None:
    """Return the hours that the calls and tokens take at the model's limits; ``None`` without limits."""
    minutes = []
    if model.rpm is not None:
        minutes.append(calls / model.rpm)
    if model.tpm is not None:
        minutes.append(tokens / model.tpm)
    return max(minutes) / 60.0 if minutes else None
