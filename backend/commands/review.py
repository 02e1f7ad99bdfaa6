"""``camvo review``: the tasks most worth labelling, by :mod:`camvo.scores.reviews`, and the disputed ones."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sqlalchemy import Connection

from backend import settings
from backend.commands.shared.output import say
from backend.commands.shared.setup import existing_ledger, stored_project
from backend.errors import ConfigError
from backend.label_studio import payloads
from backend.label_studio.client import BLIND_TAB, DISPUTED_TAB, NEXT_TAB, Client, Tabs
from backend.learning.annotators import AnsweredQuestion, answered_questions
from backend.learning.projects import closed_controls, project_settings
from backend.learning.states import States
from backend.learning.teaching import person
from backend.ledger import Ledger, LedgerAccess, projects, rounds
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.learning_data import JudgedRound, Reliabilities
from backend.ledger.projects import Project
from backend.ledger.recounts import CountedRounds, OpenRound, Recounts
from backend.ledger.reports import ProjectSums
from backend.ledger.rounds import ProjectRounds
from backend.quotes.quote import label_price
from backend.recounting.recounter import Doubting, Recounter
from backend.server.status.formats import dollars, of
from backend.settings import Environment, Settings
from backend.settings.policies import policy_of
from backend.threads import Threads
from camvo.annotators import PRIOR_PERSON
from camvo.policies.joint import Joint
from camvo.scores import reviews
from camvo.scores.reviews import NOTHING_SEEN, Candidate, Suggestion, TaughtBefore, teaches
from camvo.student import without_silent_student
from camvo.votes.labels import has_vote_model, label_posterior

_CERTAIN: Final = 0.9
"""The score from which a vote is certain enough to dispute a human label."""

_VOTE: Final = "the vote"


@dataclass(frozen=True, slots=True)
class _DisputedTask:
    """A task to adjudicate, and why; ``wrong`` is the probability that its label in force is wrong.

    ``unclear`` says that the label that people gave was split or dropped since.
    """

    task: int
    control: str
    wrong: float
    answers: Mapping[str, int] | None
    people: int
    label: str | None
    score: float | None
    unclear: bool = False

    @property
    def why(self) -> str:
        """The reason, in a few words."""
        if self.unclear:
            return f"people gave {', '.join(self.answers or ()) or 'a label'}, which is split or dropped"
        if self.answers is None:
            return f"{self.people} people gave different answers"
        said = ", ".join(
            f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in self.answers.items()
        )
        if len(self.answers) > 1 or self.label is None:
            return said
        return f"{said}, the vote says {self.label}"


def _disputed_tasks(connection: Connection, project: str, limit: int) -> list[_DisputedTask]:
    """Return the ``limit`` disputed tasks whose label is most probably wrong, the worst first.

    A task with a ground truth is settled. Whether a blind task is disputed does not depend on its vote: if it
    did, people would look again only where the vote differs, and the guarantee would not hold.
    """
    found = [
        disputed
        for question in answered_questions(connection, project)
        for disputed in _of_question(question, _accuracies(connection, project, question.control))
    ]
    return sorted(found, key=lambda disputed: (-disputed.wrong, disputed.task))[:limit]


def _accuracies(connection: Connection, project: str, control: str) -> Mapping[str, float]:
    fits = Reliabilities(connection, project).latest(control)
    return fits[0].accuracies if fits else {}


def _of_question(question: AnsweredQuestion, accuracies: Mapping[str, float]) -> list[_DisputedTask]:
    found = []
    for task, counted in question.annotations.items():
        if any(annotation.ground_truth for annotation in counted):
            continue
        round_ = question.rounds.get(task)
        answers, human = _said(question, counted), None if round_ is None else round_.human
        wrong = _chance_of_error(question, answers, _shown_vote(round_), human, accuracies)
        if wrong is not None:
            found.append(_disputed(question, task, answers, wrong))
    # A label that has no place among those of now is surely not the label.
    unclear = (
        _disputed(question, task, _said(question, annotations), 1.0, unclear=True)
        for task, annotations in question.unclear.items()
    )
    return [*found, *unclear]


def _said(question: AnsweredQuestion, annotations: Sequence[Annotation]) -> dict[str, str]:
    return {person(annotation): annotation.labels[question.control] for annotation in annotations}


def _shown_vote(round_: JudgedRound | None) -> JudgedRound | None:
    """The vote on a task that is not blind."""
    return None if round_ is None or round_.audit else round_


def _disputed(
    question: AnsweredQuestion, task: int, answers: Mapping[str, str], wrong: float, *, unclear: bool = False
) -> _DisputedTask:
    vote, closed = _shown_vote(question.rounds.get(task)), has_vote_model(question.aggregation)
    return _DisputedTask(
        task,
        question.control,
        wrong,
        answers=dict(Counter(answers.values()).most_common()) if closed else None,
        people=len(answers),
        label=vote.label if vote is not None and closed else None,
        score=None if vote is None else vote.score,
        unclear=unclear,
    )


def _chance_of_error(
    question: AnsweredQuestion,
    answers: Mapping[str, str],
    vote: JudgedRound | None,
    human: str | None,
    accuracies: Mapping[str, float],
) -> float | None:
    """The probability that the label in force is wrong; ``None`` if nobody disagrees."""
    reward = question.aggregation.reward
    said = list(answers.values())
    against = (
        vote is not None and vote.score >= _CERTAIN and any(reward(vote.label, one) < 1.0 for one in said)
    )
    if not against and all(reward(one, said[0]) == 1.0 for one in said):
        return None
    in_force = human or (said[0] if vote is None else vote.label)
    if not question.is_labels:
        return 1.0 - fmean(reward(one, in_force) for one in said)
    chance = 1.0 / len(question.options)
    right = {name: max(accuracies.get(name, PRIOR_PERSON), chance) for name in answers}
    votes = dict(answers)
    if vote is not None:
        votes[_VOTE], right[_VOTE] = vote.label, max(vote.score, chance)
    return 1.0 - label_posterior(votes, right, question.options)[in_force]


@dataclass(frozen=True, slots=True)
class _Pricing:
    """The cost and the value of a human label."""

    label_usd: float
    worth_usd: float
    taught: int = 0
    seen: TaughtBefore = NOTHING_SEEN
    models: Mapping[int, float] = field(default_factory=dict)


def _load_pricing(ledger: Ledger, project: str, settings: Settings) -> _Pricing | None:
    """Load the cost and the value of a human label of a project."""
    with ledger.read() as connection:
        price = label_price(connection, project, settings.humans)
        if price is None:
            return None
        own, _ = project_settings(projects.get(connection, project), settings)
        full = _full_cost(connection, project)
        taught = Annotations(connection, project).count()
        seen = Recounts(connection, project).taught_before()
    policy = policy_of(own.policy)
    if not isinstance(policy, Joint):
        raise ConfigError(
            "a price of labels needs the worth of a right label, which only the policy joint has",
            where="humans",
            fix="set policy: {name: joint, worth_usd: 0.3}, or remove humans",
        )
    if full is None:
        return None
    doubting = asyncio.run(_doubting(ledger, project, settings))
    models = {number: task.value for number, task in doubting.by_task.items() if doubting.worthwhile(task)}
    return _Pricing(price, policy.worth_of(full), taught, seen, models)


def _full_cost(connection: Connection, project: str) -> float | None:
    """What asking every model about a task costs on average, in $; ``None`` before the first."""
    tasks = ProjectRounds(connection, project).count_tasks()
    full = sum(row.full_cost_usd for row in ProjectSums(connection, project).rounds())
    return full / tasks if tasks else None


async def _doubting(ledger: Ledger, project: str, settings: Settings) -> Doubting:
    """Estimate the gain of further votes of models from the states in the ledger."""
    with LedgerAccess.opened(ledger) as access, Threads(1, "workers") as workers:
        return await Recounter(access, States(access), workers, settings).doubting(project)


_MOST = 2000
"""Candidates at most: the tasks with the largest possible gain."""


@dataclass(frozen=True, slots=True)
class _DecidedQuestion:
    """How one question of a task was decided, without any of the task's text."""

    control: str
    label: str | None
    score: float
    asked: int
    voted: int
    behind: int


@dataclass(frozen=True, slots=True)
class _SuggestedTask:
    """A task to label, and why."""

    task: int
    gain: float
    wrong: float
    lesson: float
    novelty: float
    answers: tuple[_DecidedQuestion, ...]
    value_usd: float | None = None
    models_first: bool = False

    @property
    def why(self) -> str:
        """The reasons, in a few words."""
        weakest = min(self.answers, key=lambda answer: answer.behind / max(answer.voted, 1))
        reasons = [f"{weakest.behind} of {weakest.voted} agree"]
        if weakest.voted < weakest.asked:
            reasons.append(f"{weakest.asked - weakest.voted} did not answer")
        if self.novelty > 0.8:
            reasons.append("new ground")
        if self.models_first:
            reasons.append("ask more models first")
        return ", ".join(reasons)


@dataclass(frozen=True, slots=True)
class _ReviewList:
    """The tasks of one project that are left to label; fields are ``None`` without a price of labels."""

    project: str
    tasks: tuple[_SuggestedTask, ...]
    open: int
    blind: int
    blind_next: tuple[int, ...]
    label_usd: float | None = None
    worth_usd: float | None = None
    worthwhile: int | None = None
    models_first: int = 0


def _review_list(
    connection: Connection, project: Project, limit: int, pricing: _Pricing | None
) -> _ReviewList:
    """Return the ``limit`` tasks of a project that are most worth labelling, and as many blind ones.

    With a price of labels, what a label teaches is estimated from the project's own labels, and each task is
    compared with what models would bring there for the same money.

    These tasks are left out of the former:

    - tasks that are blind for an audit: if their scores decided which of them are labelled, the guarantee
      that rests on them would not hold;
    - tasks that were annotated or skipped;
    - tasks whose latest round is of an earlier epoch.
    """
    epochs, has_closed_set = ProjectRounds(connection, project.key).latest_epochs(), dict[str, bool]()
    if (closed := closed_controls(project)) is not None:
        epochs, has_closed_set = {name: epochs[name] for name in closed if name in epochs}, dict(closed)
    rounds_of: dict[int, dict[str, OpenRound]] = {}
    for control, epoch in sorted(epochs.items()):
        for round_ in CountedRounds(connection, project.key, control, epoch).open():
            rounds_of.setdefault(round_.task, {})[control] = round_
    arms = len(
        {
            arm
            for by_control in rounds_of.values()
            for round_ in by_control.values()
            for arm in without_silent_student(round_.votes)
        }
    )
    every = [_candidate(task, by_control, arms) for task, by_control in rounds_of.items()]
    lesson = _lesson(every, pricing)
    candidates = sorted(every, key=lambda candidate: (-candidate.most(lesson), candidate.task))[:_MOST]
    labelled = [
        number
        for control, epoch in epochs.items()
        for number in CountedRounds(connection, project.key, control, epoch).labelled_ids()
    ]
    chosen = (
        _suggest(connection, candidates, rounds_of, labelled, limit=limit, lesson=lesson)
        if candidates
        else []
    )
    return _ReviewList(
        project=project.key,
        tasks=tuple(
            _suggested(suggestion, rounds_of[suggestion.task], has_closed_set, pricing)
            for suggestion in chosen
        ),
        **_priced(every, lesson, pricing),
        open=len(rounds_of),
        blind=ProjectSums(connection, project.key).count_blind_tasks(),
        blind_next=tuple(BlindQueues(connection, project.key).waiting(epochs, limit)),
    )


def _suggest(
    connection: Connection,
    candidates: Sequence[Candidate],
    rounds_of: Mapping[int, Mapping[str, OpenRound]],
    labelled: Sequence[int],
    *,
    limit: int,
    lesson: float,
) -> list[Suggestion]:
    """Choose among the candidates, each with the context of its first question."""
    first_rounds = [next(iter(rounds_of[candidate.task].values())).id for candidate in candidates]
    contexts = rounds.contexts(connection, first_rounds)
    labelled_contexts = rounds.contexts(connection, labelled)
    d = len(contexts[0])  # rounds from before a change of the embedder may have another dimension
    comparable = [number for number, context in enumerate(contexts) if len(context) == d]
    return reviews.suggest(
        [candidates[number] for number in comparable],
        np.array([contexts[number] for number in comparable]),
        np.array([context for context in labelled_contexts if len(context) == d]).reshape(-1, d),
        limit,
        lesson,
    )


def _lesson(candidates: Sequence[Candidate], pricing: _Pricing | None) -> float:
    """The most that one label teaches, in corrected labels.

    With a price of labels, it is set so that a label on an average task teaches as much as the project's
    labels do.
    """
    if pricing is None or not candidates:
        return reviews.TEACHES
    wrong = sum(candidate.wrong for candidate in candidates)
    doubt = sum(candidate.dispute for candidate in candidates) / len(candidates)
    return teaches(wrong, pricing.taught, pricing.seen) / doubt if doubt > 0.0 else 0.0


def _suggested(
    suggestion: Suggestion,
    by_control: Mapping[str, OpenRound],
    has_closed_set: Mapping[str, bool],
    pricing: _Pricing | None,
) -> _SuggestedTask:
    return _SuggestedTask(
        suggestion.task,
        suggestion.gain,
        suggestion.wrong,
        suggestion.lesson,
        suggestion.novelty,
        tuple(_decided(control, round_, has_closed_set) for control, round_ in by_control.items()),
        None if pricing is None else suggestion.gain * pricing.worth_usd,
        pricing is not None and _models_first(suggestion.task, suggestion.gain, pricing),
    )


def _models_first(task: int, gain: float, pricing: _Pricing) -> bool:
    """Whether a dollar gains more right labels from models than from a person."""
    return pricing.models.get(task, 0.0) * pricing.label_usd > gain


def _priced(candidates: Sequence[Candidate], lesson: float, pricing: _Pricing | None) -> dict[str, Any]:
    """What the whole list says about prices; a label on new ground counts, so this errs towards labels."""
    if pricing is None:
        return {}
    gains = {candidate.task: candidate.most(lesson) for candidate in candidates}
    return {
        "label_usd": pricing.label_usd,
        "worth_usd": pricing.worth_usd,
        "worthwhile": sum(gain * pricing.worth_usd >= pricing.label_usd for gain in gains.values()),
        "models_first": sum(_models_first(task, gain, pricing) for task, gain in gains.items()),
    }


def _candidate(task: int, by_control: Mapping[str, OpenRound], arms: int) -> Candidate:
    return Candidate(
        task,
        wrong=sum(1.0 - round_.score for round_ in by_control.values()),
        dispute=sum(
            reviews.dispute(round_.votes, round_.label, round_.score, arms) for round_ in by_control.values()
        ),
    )


def _decided(control: str, round_: OpenRound, has_closed_set: Mapping[str, bool]) -> _DecidedQuestion:
    said = without_silent_student(round_.votes)
    votes = [vote for vote in said.values() if vote is not None]
    label = round_.label if has_closed_set.get(control) else None
    return _DecidedQuestion(control, label, round_.score, len(said), len(votes), votes.count(round_.label))


def _key_of(client: Client | None, number: int) -> str:
    """What names a project: Label Studio's key of it if there is a client, else its number."""
    return str(number) if client is None else payloads.project_key(client.project(number))


def show_disputed(
    console: Console,
    environment: Environment,
    client: Client | None,
    number: int,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Print a project's disputed tasks, and show them in a tab if there is a client of Label Studio."""
    key = _key_of(client, number)
    with existing_ledger(environment) as ledger, ledger.read() as connection:
        tasks = _disputed_tasks(connection, stored_project(connection, key).key, limit)
    _print(console, tasks, as_json=as_json)
    if client is not None:
        unique = list(dict.fromkeys(disputed.task for disputed in tasks))
        address = Tabs(client, number).show(unique, DISPUTED_TAB)
        line = f"Tab {DISPUTED_TAB!r}: {address}"
        say(Console(stderr=as_json), line)


def _print(console: Console, tasks: Sequence[_DisputedTask], *, as_json: bool) -> None:
    if as_json:
        rows = [dataclasses.asdict(disputed) | {"why": disputed.why} for disputed in tasks]
        console.out(json.dumps({"disputed": rows}, indent=2), highlight=False)
        return
    if not tasks:
        console.print("No task is disputed.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("task", "wrong", "score"):
        table.add_column(name, justify="right")
    table.add_column("question", overflow="fold", max_width=24)
    table.add_column("why", overflow="fold")
    for disputed in tasks:
        score = "–" if disputed.score is None else f"{disputed.score:.2f}"
        table.add_row(
            str(disputed.task), f"{disputed.wrong:.2f}", score, escape(disputed.control), escape(disputed.why)
        )
    console.print(table)
    console.print("Mark the right annotation of a task as ground truth, and it is settled.", highlight=False)


def _load_review_list(environment: Environment, project: str, limit: int) -> _ReviewList:
    """Load one project's review list from the ledger."""
    with existing_ledger(environment) as ledger:
        with ledger.read() as connection:
            key = stored_project(connection, project).key
        pricing = _load_pricing(ledger, key, settings.load(environment.config))
        with ledger.read() as connection:
            return _review_list(connection, stored_project(connection, key), limit, pricing)


def show_review_list(
    console: Console,
    environment: Environment,
    client: Client | None,
    number: int,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Print the suggested tasks of a project, the best first, and show them in tabs if there is a client."""
    key = _key_of(client, number)
    review = _load_review_list(environment, key, limit)
    _print_review_list(console, review, as_json=as_json)
    if client is not None:
        shown, notes = Tabs(client, number), Console(stderr=as_json)
        if (blind := shown.show_blind(review.blind_next)) is not None:
            say(notes, f"Tab {BLIND_TAB!r}: {blind}")
        address = shown.show([suggested.task for suggested in review.tasks])
        say(notes, f"Tab {NEXT_TAB!r}: {address}")


def _print_review_list(console: Console, review: _ReviewList, *, as_json: bool) -> None:
    if as_json:
        tasks = [dataclasses.asdict(suggested) | {"why": suggested.why} for suggested in review.tasks]
        console.out(json.dumps(dataclasses.asdict(review) | {"tasks": tasks}, indent=2), highlight=False)
        return
    if review.tasks:
        console.print(_table(review.tasks))
    console.print(f"{of(review.open, 'task', 'have')} a prediction and no annotation.", highlight=False)
    for line in _about_prices(review):
        say(console, line)
    if review.blind:
        line = f"{review.blind} more are blind for the audit. Label them in this order: "
        console.print(line + ", ".join(map(str, review.blind_next)), highlight=False)


def _about_prices(review: _ReviewList) -> Iterator[str]:
    """Print how many labels are worth their price, and where models gain more for the same money."""
    if review.label_usd is None or review.worth_usd is None:
        return
    prices = f"A label costs {dollars(review.label_usd)}, a right one is worth {dollars(review.worth_usd)}."
    if review.worthwhile:
        yield f"{prices} Labels of {of(review.worthwhile, 'task')} are worth their price."
    else:
        yield f"{prices} No other label is worth its price."
    if review.models_first:
        command = f"camvo predict --project {review.project.partition('.')[0]} --recount --ask-more USD"
        where = f"On {of(review.models_first, 'task')} a dollar brings more"
        yield f"{where} if models are asked first: {command}"


def _table(tasks: tuple[_SuggestedTask, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    priced = any(suggested.value_usd is not None for suggested in tasks)
    for name in ("task", "gain", *(["value"] if priced else []), "score"):
        table.add_column(name, justify="right")
    table.add_column("label", overflow="fold", max_width=30)
    table.add_column("why")
    for suggested in tasks:
        table.add_row(
            str(suggested.task),
            f"{suggested.gain:.2f}",
            *([dollars(suggested.value_usd or 0.0)] if priced else []),
            "\n".join(f"{answer.score:.2f}" for answer in suggested.answers),
            "\n".join(escape(answer.label or "–") for answer in suggested.answers),
            suggested.why,
        )
    return table
