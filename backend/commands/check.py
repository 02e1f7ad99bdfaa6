"""``camvo check``: whether each part works, and with ``--live`` one small call to each model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend import settings
from backend.commands.shared.arguments import require_webhook_secret
from backend.commands.shared.output import Fact, print_fact, say
from backend.errors import BadAnswerError, BadLabelConfigError, ConfigError, ModelError, TaskError, Usage
from backend.learning.projects import require_known_labels
from backend.ledger import Ledger, migrate, reports
from backend.ledger.database.statements import try_write
from backend.models import Pool, embedded_voters
from backend.models import model as litellm_info
from backend.models.calls import ModelAnswer
from backend.models.embedder import Embedder
from backend.models.model import Model
from backend.questions import TaskQuestion, parse_label_config
from backend.questions.controls import lists_labels, looks_ordered
from backend.questions.label_config import PagePart
from backend.questions.objects import IMAGE
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.messages import Messages, answer_schema, prompt_messages
from backend.questions.question import ConfigQuestion
from backend.questions.redaction import Redactor, redactor_named
from backend.runtime import recall_usage
from backend.server.status.formats import dollars, of, seconds
from backend.settings import Environment, ModelSettings, Settings
from backend.settings.policies import policy_in_force, policy_of
from camvo.errors import CamvoError
from camvo.policies.policy import Observation
from camvo.state.state import State

_PATIENCE = 60.0
"""Seconds for which a model is waited for."""


@dataclass(frozen=True, slots=True)
class _LiveCall:
    """The outcome of one call to one model; ``wordy`` if its server refused the JSON schema of the answer.

    ``usage`` is what the call used, also where it gave no answer.
    """

    name: str
    usage: Usage
    votes: Mapping[str, str] = field(default_factory=dict)
    answer: ModelAnswer | None = None
    problem: str | None = None
    wordy: bool = False


def _call_each(pool: Pool, questions: Sequence[TaskQuestion], messages: Messages) -> list[_LiveCall]:
    """Ask each model of a pool the same questions, at once; this costs money."""

    async def all_calls() -> Sequence[_LiveCall]:
        return await asyncio.gather(*(_call(pool, name, questions, messages) for name in pool.names))

    return list(asyncio.run(all_calls()))


async def _call(pool: Pool, name: str, questions: Sequence[TaskQuestion], messages: Messages) -> _LiveCall:
    model, schema = pool[name].model, answer_schema(questions)
    try:
        answer = await pool[name].attempt(messages, schema, _PATIENCE, questions=questions)
    except ModelError as error:
        return _LiveCall(name, pool[name].failure_usage(messages, error), problem=_described(error))
    wordy = model.refused(schema)
    try:
        votes = parse_answer(answer.content, questions)
    except BadAnswerError:
        votes = {}
    problem = None if len(votes) == len(questions) else _unusable(answer, model)
    return _LiveCall(name, answer.usage, votes, answer, problem, wordy)


_SHOWN = 120
"""Characters of an unusable answer that are shown."""


def _unusable(answer: ModelAnswer, model: Model) -> str:
    """Say that an answer has no vote on some question, and what to do about its model."""
    words = " ".join(answer.content.split())
    shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
    if answer.schema is not None:
        fix = "the JSON schema was sent along: name another model, or a server that keeps to schemas"
    elif model.settings.structured_output is False:
        fix = "set structured_output: true, or name another model"
    else:
        fix = "no JSON schema was sent along: name another model, or set structured_output: true"
    return f"its answer names none of the labels: “{shown}” ({fix})"


def _described(error: ModelError) -> str:
    """What went wrong and what to do; the table names the model already."""
    plain = type(error)(error.message, fix=error.fix or _FIXES.get(error.code))
    return str(plain)


_FIXES = {
    "model_timeout": "raise its timeout, or check whether it is overloaded",
    "model_unavailable": "look at the provider's status page, and check api_base",
    "model_refused": "look at the provider's content filter",
}
"""What to do about errors that carry no fix of their own, by code."""


def _print_calls(console: Console, calls: Sequence[_LiveCall]) -> bool:
    """Print the calls; return whether every model voted."""
    table = Table(title="One call to each model", title_justify="left")
    for column in ("model", "answer", "time", "tokens in", "out", "paid"):
        table.add_column(column, justify="left" if column in {"model", "answer"} else "right")
    for call in calls:
        table.add_row(escape(call.name), escape(_shown_votes(call.votes)), *_usage(call))
    console.print(table)
    for call in calls:
        if call.wordy:
            text = "its server refuses JSON schemas; it is asked for JSON in words alone"
            say(console, f"[yellow]–[/] {escape(call.name)}: {text}", markup=True)
        if call.problem is not None:
            text = f"[red]✗[/] {escape(call.name)}: {escape(call.problem)}"
            say(console, text, markup=True)
    paid = sum(call.usage.cost for call in calls)
    line = f"{dollars(paid)} paid for these calls. The times include loading the client libraries."
    console.print(line, highlight=False)
    return all(call.problem is None for call in calls)


def _shown_votes(votes: Mapping[str, str]) -> str:
    """The votes, with the names of their questions if there are several."""
    if len(votes) == 1:
        return next(iter(votes.values()))
    return "\n".join(f"{name}: {vote}" for name, vote in votes.items()) or "✗"


def _usage(call: _LiveCall) -> tuple[str, str, str, str]:
    """The time of a call, its tokens and its price, as far as they are known."""
    took = "" if call.answer is None else seconds(call.answer.seconds)
    estimated = "~" if call.answer is not None and call.answer.estimated else ""
    tokens = (call.usage.input_tokens, call.usage.output_tokens)
    known = call.answer is not None or any(tokens)
    read, written = (f"{estimated}{number}" if known else "" for number in tokens)
    return took, read, written, dollars(call.usage.cost) if known or call.usage.cost else ""


_SAMPLE = {"text": "The delivery was two days late, but the shop apologised and refunded the postage."}

_PERSONAL_SAMPLE = "Jane Doe, jane@example.org, +44 20 7946 0958"


def check_setup(console: Console, environment: Environment, *, live: bool, label_config: Path | None) -> bool:
    """Check each part and print the results; return whether the server can start."""
    loaded = settings.load(environment.config)
    print_fact(console, Fact("configuration", str(environment.config or "embedded voters (no camvo.yaml)")))
    _step(console, "policy", lambda: _policy(loaded))
    pool = Pool(loaded.models, keys=environment.keys(loaded.models))
    print_fact(console, Fact("prices", f"of {len(pool.names)} models"))
    redactor = redactor_named(loaded.redact)
    embedder = Embedder(loaded.embedder)
    ledger_works = _step(console, "ledger", lambda: _ledger(environment))
    results = [
        redactor is None or _step(console, "redaction", lambda: _redaction(redactor, loaded)),
        _step(console, "keys", lambda: _keys(pool)),
        ledger_works,
        _step(console, "embedder", lambda: _embedder(embedder)),
        _step(console, "webhooks", lambda: _webhooks(environment)),
        _step(console, "alerts", lambda: _alerts(environment, loaded)),
    ]
    xml = None if label_config is None else _read_config(label_config)
    if xml is not None:
        facts = list(config_facts(xml, loaded))
        for fact in facts:
            print_fact(console, fact)
        results += [fact.holds is not False for fact in facts]
    paid = _recall(environment, pool) if ledger_works else (0, 0.0)
    question, messages = _sample(loaded)
    if live:
        asked = _own_questions(xml, loaded) or [question]
        shown = prompt_messages(asked, loaded.instructions)
        if any(model.is_embedded for model in loaded.models):
            embedded_voters.register(embedder)
        results.append(_print_calls(console, _call_each(pool, asked, shown)))
    _print_estimate(console, loaded, pool, question, messages)
    if paid[0]:
        line = f"So far, {of(paid[0], 'task', 'cost')} {dollars(paid[1])}: {dollars(paid[1] / paid[0])} each."
        console.print(line, highlight=False)
    return all(results)


def _read_config(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot be read: {reason}", where="--label-config", fix="name a file") from None


def _recall(environment: Environment, pool: Pool) -> tuple[int, float]:
    """Tell the pool what its models used so far; return the tasks so far, and what they cost in $."""
    with closing(Ledger(environment.database_url)) as ledger:
        recall_usage(pool, ledger)
        with ledger.read() as connection:
            return reports.paid_tasks(connection)


def _sample(loaded: Settings) -> tuple[TaskQuestion, Messages]:
    """A short question, and the messages that ask it."""
    config = parse_label_config(files("label_config").joinpath("sentiment.xml").read_text("utf-8"))
    (question,) = (question.about(_SAMPLE) for question in config.questions)
    return question, prompt_messages([question], loaded.instructions)


def _own_questions(xml: str | None, loaded: Settings) -> list[TaskQuestion]:
    """The questions of a label config about a made-up task, without those that it cannot fill."""
    if xml is None:
        return []
    try:
        config = parse_label_config(xml)
    except BadLabelConfigError:
        return []  # said before
    questions = []
    for question in config.questions:
        if _obstacle(question, loaded) is None and all(each.tag != IMAGE for each in question.fields):
            with suppress(TaskError):
                questions.append(question.about(_made_up(question)))
    return questions


def _made_up(question: ConfigQuestion) -> dict[str, object]:
    """A task's data with a short text, or a dialogue or list of it, for each object of a question."""
    data: dict[str, object] = {}
    for each in question.fields:
        text = _SAMPLE["text"]
        turn = {each.name_key: "A", each.text_key: text, "id": "1", "title": text}
        listed = each.tag in {"Chat", "List", "Paragraphs"}
        cells = {"text": text} if each.tag == "Table" else text
        data[each.key] = [turn, turn | {"id": "2"}] if listed else cells
    return data


def _step(console: Console, name: str, step: Callable[[], str]) -> bool:
    try:
        fact = Fact(name, step())
    except CamvoError as error:
        fact = Fact(name, str(error), holds=False)
    print_fact(console, fact)
    return fact.holds is True


def _policy(loaded: Settings) -> str:
    name, without_effect = policy_in_force(loaded.policy)
    said = f"{name}; no effect: {', '.join(without_effect)}" if without_effect else name
    if loaded.policy.recall and not loaded.audit:
        said += "; recall needs blind labels: set audit, or give camvo label --blind"
    return said


def _redaction(redactor: Redactor, loaded: Settings) -> str:
    images = "images are shown as they are" if loaded.unredacted_images else "no images are shown"
    redacted = redactor.redact({"sample": _PERSONAL_SAMPLE})["sample"].text
    return f"{redactor.identity}; {images}; “{_PERSONAL_SAMPLE}” becomes “{redacted}”"


def _keys(pool: Pool) -> str:
    if all(pool[name].model.needs_no_key for name in pool.names):
        return "none needed"
    missing = pool.missing_keys()
    if missing:
        raise ConfigError(
            f"not set: {', '.join(missing)}", fix="set these variables in the server's environment"
        )
    return "present (--live tries them, which costs money)"


def _ledger(environment: Environment) -> str:
    place = migrate(environment.database_url)
    with closing(Ledger(environment.database_url)) as ledger, ledger.write() as connection:
        try_write(connection)
    return f"{place}, opened, migrated and written to"


def _embedder(embedder: Embedder) -> str:
    embedder.embed([_SAMPLE["text"]])
    return f"{embedder.identity}, d = {embedder.dimension}"


def _webhooks(environment: Environment) -> str:
    require_webhook_secret(
        environment, "set it, and the same value as the header X-Camvo-Secret of the webhook in Label Studio"
    )
    return (
        "protected by the secret header"
        if environment.webhook_secret
        else "accepted from anyone who can reach the port"
    )


def _alerts(environment: Environment, loaded: Settings) -> str:
    name = loaded.alerts.url_env
    if name is None:
        return "shown at /status, posted nowhere"
    if environment.secret(name) is None:
        raise ConfigError("is not set", where=name, fix="set it to the address that alarms are posted to")
    return f"posted to the address in {name}"


def _print_estimate(
    console: Console, loaded: Settings, pool: Pool, question: TaskQuestion, messages: Messages
) -> None:
    """Print the cost of one short text in a project that has learnt nothing yet."""
    costs = {name: pool[name].model.cost(messages) for name in pool.names}
    state = State(1, loaded.policy.lambda_l)
    observation = Observation(state, np.ones(1), question.options)
    plan = policy_of(loaded.policy).plan({question.name: observation}, costs)
    table = Table(title="One short text, a project that has learnt nothing yet", title_justify="left")
    for column in ("model", "litellm", "expected $", "asked", "from"):
        table.add_column(column, justify="right" if column == "expected $" else "left")
    for model in loaded.models:
        asked = "yes" if model.name in plan.subset else ""
        meter = pool[model.name].model.meter
        basis = {
            "calls": of(meter.calls, "call"),
            "others": "the others' answers",
            "max_tokens": "max_tokens",
        }
        table.add_row(
            escape(model.name),
            escape(model.model),
            f"{costs[model.name]:.7f}",
            asked,
            basis[meter.measured_by],
        )
    console.print(table)
    total = sum(costs[name] for name in plan.subset)
    line = f"${total:.7f} per task, ${total * 100_000:,.2f} for 100,000 such tasks"
    if any(pool[name].model.meter.measured_by == "max_tokens" for name in plan.subset):
        line += f", at most.{_UNMEASURED}"
    else:
        line += "."
    if all(model.is_embedded for model in loaded.models):
        line += " The prices of embedded voters are nominal."
    console.print(line, highlight=False)


_UNMEASURED = (
    " Answers of models that were not measured count as max_tokens long; camvo check --live measures one of "
    "each for this table, and camvo quote --pilot 20 for quotes."
)

_NAME = "label config"


def config_facts(xml: str, settings: Settings) -> Iterator[Fact]:
    """Report for each control whether it gets predictions; the last fact fails if none of them does."""
    try:
        config = parse_label_config(xml)
    except BadLabelConfigError as error:
        yield Fact(_NAME, str(error), holds=False)
        return
    obstacles = {question.name: _obstacle(question, settings) for question in config.questions}
    try:
        require_known_labels(settings, config, "policy")
    except ConfigError as error:
        yield Fact(_NAME, str(error), holds=None)
    for question in config.questions:
        if (reason := obstacles[question.name]) is None:
            yield _predicted(question)
            if looks_ordered(question.control):
                text = 'its labels look like a scale: camvo_ordered="true" reads them as one (docs/tags.md)'
                yield Fact(_NAME, f"{question.name} ({question.tag}): {text}", holds=None)
        else:
            yield Fact(_NAME, f"{question.name} ({question.tag}) stays blank: {reason}", holds=None)
    for control in config.skipped:
        text = f"{control.control} ({control.tag}) stays blank: {control.reason}"
        yield Fact(_NAME, text, holds=None)
    yield from map(_part, config.page)
    if all(obstacles.values()):
        text = "no control gets a prediction: add one that can be voted on (docs/tags.md)"
        yield Fact(_NAME, text, holds=False)


_LONGEST_WORDS: Final = 300
"""The most characters of a page's words in one line."""


def _part(part: PagePart) -> Fact:
    """What becomes of a part of the page: a field, words, or a question with its condition."""
    text = " ".join(part.text.split())
    if len(text) > _LONGEST_WORDS:
        text = f"{text[:_LONGEST_WORDS]}…"
    said = text if part.kind == "question" else f'"{text}"'
    if part.unsent is not None:
        return Fact("not sent", f"{part.kind} {said}: {part.unsent}", holds=None)
    return Fact("sent", f"{part.kind} {said}" + ("" if part.sent == "always" else f", {part.sent}"))


def _predicted(question: ConfigQuestion) -> Fact:
    text = f"{question.name} ({question.tag}) gets predictions"
    if any(field.tag == "Chat" for field in question.fields):
        return Fact(_NAME, f"{text}, but Label Studio's open-source editor cannot draw a Chat", holds=None)
    return Fact(_NAME, text)


def _obstacle(question: ConfigQuestion, settings: Settings) -> str | None:
    """Return why no model can answer a question, or ``None``."""
    if not lists_labels(question.control) and all(model.is_embedded for model in settings.models):
        return "the embedded voters answer only lists of labels; name other models in camvo.yaml"
    shows_image = any(field.tag == IMAGE for field in question.fields)
    if shows_image and not any(map(_sees, settings.models)):
        return "it shows an image, and no model accepts images; name one, or set its vision: true"
    return None


def _sees(model: ModelSettings) -> bool:
    if model.vision is None:
        return not model.is_embedded and litellm_info.accepts_images(model.model)
    return model.vision
