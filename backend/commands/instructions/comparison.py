"""Two texts side by side: how right each is, and what it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from backend.annotation.replies import PASSING
from backend.annotation.trials import TriedTask
from backend.commands.instructions.asking import Outcome, peoples_label
from backend.datasets.sinks import whole_file
from backend.datasets.tasks import DatasetTask
from backend.ledger.human_annotations import Annotation
from backend.ledger.projects import short_name
from backend.server.status import formats
from camvo.numerics.paired import Paired, compare_paired
from camvo.votes.aggregation import Aggregation
from camvo.votes.registry import is_answer


@dataclass(frozen=True, slots=True)
class _Side:
    """One question of one task with one of the texts."""

    label: str | None
    votes: Mapping[str, str]
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _ComparedTask:
    """One question of one task, before and after.

    Attributes:
        task: the task's id.
        texts: what the question is about, by field.
        human: what people say; ``None`` if they say nothing, or nothing that both label configs allow.
        before: with the present text.
        after: with the new one.
        changed: whether the vote is another.
    """

    task: str
    texts: Mapping[str, str]
    human: str | None
    before: _Side
    after: _Side
    changed: bool


@dataclass(frozen=True, slots=True)
class _ComparedQuestion:
    """One question, before and after.

    Attributes:
        question: the name of its control.
        tasks: the tasks, those whose label changed first.
        vote: the accuracy of the vote; ``None`` without any label of people.
        models: model → its accuracy.
        votes_changed: model → how many of its votes changed.
        labels: people's label → the accuracy of the vote on it.
        changed: (label before, label after) → number of tasks.
    """

    question: str
    tasks: Sequence[_ComparedTask]
    vote: Paired | None
    models: Mapping[str, Paired | None]
    votes_changed: Mapping[str, int]
    labels: Mapping[str, Paired | None]
    changed: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a trial has shown.

    Attributes:
        project: the project's name.
        tasks: the number of tasks that both texts were tried on.
        labelled: how many of them people have labelled.
        failed: code → the number of tasks that could not be asked about.
        missing: code → the number of votes that models did not give.
        before_usd: what the answers to the present text cost per task, in $.
        after_usd: what those to the new one cost per task, in $.
        paid: what the trial has paid, in $.
        questions: the questions.
    """

    project: str
    tasks: int
    labelled: int
    failed: Mapping[str, int]
    missing: Mapping[str, int]
    before_usd: float
    after_usd: float
    paid: float
    questions: Sequence[_ComparedQuestion]

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        found = asdict(self)
        for question in found["questions"]:
            question["changed"] = [
                {"before": before, "after": after, "tasks": tasks}
                for (before, after), tasks in question["changed"].items()
            ]
        return found


def compare_texts(
    project: str,
    questions: Sequence[str],
    sample: Sequence[DatasetTask],
    annotated: Mapping[int, Sequence[Annotation]],
    outcomes: Sequence[tuple[Outcome, Outcome]],
) -> Comparison:
    """Compare what models say about tasks with two texts.

    Args:
        project: the project's key.
        questions: the names of its questions.
        sample: the tasks.
        annotated: the annotations of the tasks that people have labelled, by task.
        outcomes: for each task what models say before and after.
    """
    pairs: list[tuple[DatasetTask, TriedTask, TriedTask]] = []
    failed: Counter[str] = Counter()
    for task, (before, after) in zip(sample, outcomes, strict=True):
        if isinstance(before, TriedTask) and isinstance(after, TriedTask):
            pairs.append((task, before, after))
        else:
            failed[before if isinstance(before, str) else str(after)] += 1
    number = max(len(pairs), 1)
    paid = [one.paid for pair in outcomes for one in pair if isinstance(one, TriedTask)]
    return Comparison(
        project=short_name(project),
        tasks=len(pairs),
        labelled=sum(task.number in annotated for task, _, _ in pairs),
        failed=dict(failed),
        missing=dict(Counter(code for _, *both in pairs for one in both for code in one.failures.values())),
        before_usd=sum(before.usd for _, before, _ in pairs) / number,
        after_usd=sum(after.usd for _, _, after in pairs) / number,
        paid=sum(paid),
        questions=[_question(name, pairs, annotated) for name in questions],
    )


def _question(
    name: str,
    pairs: Sequence[tuple[DatasetTask, TriedTask, TriedTask]],
    annotated: Mapping[int, Sequence[Annotation]],
) -> _ComparedQuestion:
    """Compare the answers to one question."""
    tasks: list[_ComparedTask] = []
    vote: list[tuple[float, float]] = []
    by_label: dict[str, list[tuple[float, float]]] = {}
    by_model: dict[str, list[tuple[float, float]]] = {}
    votes_changed: Counter[str] = Counter()
    changed: Counter[tuple[str, str]] = Counter()
    for task, before, after in pairs:
        if name not in before.questions or name not in after.questions:
            continue
        question, aggregation = before.questions[name], before.questions[name].aggregation
        human = peoples_label(annotated.get(task.number, ()), question)
        if not is_answer(after.questions[name].aggregation, human, after.questions[name].options):
            human = None
        one, other = (_side(name, tried) for tried in (before, after))
        moved = one.label is not None and other.label is not None and one.label != other.label
        tasks.append(_ComparedTask(task.id, question.texts, human, one, other, moved))
        if moved:
            changed[str(one.label), str(other.label)] += 1
        models = _answered(one) & _answered(other)
        for model in models:
            by_model.setdefault(model, [])
            votes_changed[model] += one.votes.get(model) != other.votes.get(model)
        if human is None or one.label is None or other.label is None:
            continue
        vote.append(_rewards(aggregation, (one.label, other.label), human))
        by_label.setdefault(human, []).append(vote[-1])
        for model in models:
            by_model[model].append(
                _rewards(aggregation, (one.votes.get(model), other.votes.get(model)), human)
            )
    return _ComparedQuestion(
        question=name,
        tasks=sorted(tasks, key=lambda compared: not compared.changed),
        vote=compare_paired(vote),
        models={model: compare_paired(by_model[model]) for model in sorted(by_model)},
        votes_changed=dict(votes_changed),
        labels={label: compare_paired(by_label[label]) for label in sorted(by_label)},
        changed=dict(changed.most_common()),
    )


def _answered(side: _Side) -> set[str]:
    """The models that answered, perhaps without a vote. Others were down, or the budget was spent."""
    return side.votes.keys() | {model for model, code in side.failures.items() if code not in PASSING}


def _rewards(
    aggregation: Aggregation, votes: tuple[str | None, str | None], human: str
) -> tuple[float, float]:
    """How right two votes are; a missing one is wrong."""
    before, after = (0.0 if vote is None else aggregation.reward(vote, human) for vote in votes)
    return before, after


def _side(name: str, tried: TriedTask) -> _Side:
    votes = tried.votes.get(name, {})
    failures = {arm: code for arm, code in tried.failures.items() if arm not in votes}
    return _Side(tried.labels.get(name), votes, failures)


def verdict(found: Paired | None) -> str:
    """Which text is better, as far as people's labels tell."""
    if found is None:
        return "no label of people to judge by"
    if not found.more and found.more is not None:
        return "the new text is better" if found.difference > 0.0 else "the present text is better"
    if found.more is None:
        return "no difference on these tasks"
    return f"not told apart yet: {formats.of(found.more, 'more labelled task')} would"


def change(found: Paired) -> str:
    """The difference with its interval, in percentage points."""
    low, high, difference = (100.0 * value for value in (found.low, found.high, found.difference))
    return f"{difference:+.1f} ({low:+.1f} to {high:+.1f}) points"


def write_page(found: Comparison, path: Path) -> None:
    """Write the page that shows both texts side by side."""
    templates = formats.templates("backend.commands", "resources", verdict=verdict, change=change)
    page = templates.get_template("trial.html")
    with whole_file(path) as file:
        file.write(page.render(found=found, version=metadata.version("camvo")).encode())
