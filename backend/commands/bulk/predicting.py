"""Predictions for projects that are too large for Label Studio's single request of 100 s.

A run keeps no state: it compares Label Studio's predictions with the backend's. An interrupted run can be
repeated, and the backend answers tasks that it has decided from its ledger.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from typing import Any, Protocol, TypeVar

from backend.annotation.job import random_draw
from backend.annotation.job_questions import ALL, is_below
from backend.annotation.queue import AUDIT, CROWDED, DEADLINE, OUTAGE
from backend.commands.shared.backend_client import BackendAwayError, Progress, TaskAnswer
from backend.commands.shared.output import Advance
from backend.errors import (
    BackendError,
    BatchPendingError,
    BodyTooLargeError,
    LabelStudioUnreachableError,
    cure_of,
)
from backend.label_studio import predictions
from backend.label_studio.client import Client
from backend.ledger.database.statements import portions
from backend.server.status.formats import of, verb_of
from backend.server.status.missing import Ending, Missing
from backend.threads import repeatedly


@dataclass(slots=True)
class Tally:
    """Counts of tasks; ``stored``, ``replaced`` and ``refused`` count predictions.

    ``unchanged`` has the tasks that ``--only-missing`` skips, ``undecided`` those that the run gave up,
    ``partly`` those whose prediction lacks one of the questions, ``annotated`` those with annotations.
    The ``asked`` tasks of the requests that are finished cost ``usd_asked``.
    """

    created: int = 0
    stored: int = field(default=0, compare=False)
    replaced: int = 0
    unchanged: int = 0
    blind: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    partly: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    undecided: int = 0
    too_large: int = 0
    refused: int = 0
    repaired: int = 0
    annotated: int = 0
    spent_usd: float = field(default=0.0, compare=False)
    asked: int = field(default=0, compare=False)
    usd_asked: float = field(default=0.0, compare=False)
    fixes: dict[str, str] = field(default_factory=dict, compare=False)
    awaited: str = field(default="", compare=False)
    missing: Missing | None = field(default=None, compare=False)

    def begin_sweep(self) -> None:
        """Start another sweep over all tasks; those that an earlier sweep left open are counted again."""
        self.unchanged = -self.created
        self.blind = self.waiting = self.undecided = self.too_large = self.refused = self.annotated = 0
        self.failed.clear()
        self.partly.clear()

    @property
    def left(self) -> int:
        """How many tasks should have got a prediction, or a label for each question, and did not."""
        return (
            self.failed.total()
            + self.partly.total()
            + self.waiting
            + self.undecided
            + self.too_large
            + self.refused
        )

    @property
    def ending(self) -> Ending:
        """How the run ends, as an exit code."""
        if self.left:
            return Ending.TASKS_LEFT
        return Ending.DONE if self.missing is None else self.missing.ending

    def summary(self) -> str:
        """Return a line with what was done, and a line for each problem that may need action."""
        tasks = "" if self.stored in {0, self.created} else f" for {of(self.created, 'task')}"
        lines = [
            f"{of(self.stored or self.created, 'prediction')} stored{tasks}, {self.replaced} replaced,"
            f" {of(self.unchanged, 'task')} left unchanged"
        ]
        if self.repaired:
            was = verb_of(self.repaired, "were")
            lines.append(
                f"{of(self.repaired, 'prediction')} in Label Studio {was} older than the ledger's, and {was}"
                " replaced"
            )
        if self.annotated:
            have, were = (verb_of(self.annotated, verb) for verb in ("have", "were"))
            lines.append(
                f"{self.annotated} of these {have} annotations and {were} not asked about: --annotated asks"
            )
        if self.blind:
            blind = of(self.blind, "task", "are")
            lines.append(f"{blind} kept blind for the audit: label them without a prediction")
        counted = [("lack", " a label for a question", self.partly)]
        if self.missing is None:
            counted.insert(0, ("", " failed", self.failed))
        lines += [
            f"{of(tasks, 'task', verb)}{what} ({code}): {self.fixes.get(code, cure_of(code))}"
            for verb, what, of_code in counted
            for code, tasks in of_code.most_common()
        ]
        if self.waiting:
            lines.append(f"{of(self.waiting, 'task', 'wait')} for providers' batches: camvo jobs lists them")
        if self.undecided:
            lines.append(
                f"{of(self.undecided, 'task', 'have')} no prediction yet: models are slow; run it again"
            )
        if self.too_large:
            lines.append(
                f"{of(self.too_large, 'task', 'are')} too large: raise the server's CAMVO_MAX_BODY_MB"
            )
        if self.refused:
            refused = of(self.refused, "prediction", "were")
            lines.append(f"{refused} refused by Label Studio: they do not fit its label config")
        if self.missing is not None:
            lines += self.missing.lines()
        return "\n".join(lines)


_Answer = TypeVar("_Answer")

_EVERY = 1.0
"""Seconds between two looks."""


_Task = TypeVar("_Task")


def in_requests(
    tasks: Sequence[_Task], send: Callable[[Sequence[_Task]], _Answer]
) -> Iterator[_Answer | None]:
    """Send tasks in several requests if one is too large; ``None`` for a task that is too large alone."""
    if not tasks:
        return
    try:
        answer = send(tasks)
    except BodyTooLargeError:
        if len(tasks) == 1:
            yield None
            return
        half = len(tasks) // 2
        yield from in_requests(tasks[:half], send)
        yield from in_requests(tasks[half:], send)
    else:
        yield answer


class _Predictor(Protocol):
    """A source of predictions: the backend over HTTP, or this process."""

    def predict(
        self,
        project_key: str,
        label_config: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        stored_only: bool = False,
    ) -> list[TaskAnswer]:
        """Return for each task its predictions, or why it has none (yet)."""

    def failed_tasks(self, project_key: str) -> list[int]:
        """Return the tasks that ended without a prediction."""

    def progress(
        self, project_key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        """Return how far the project is."""


@contextmanager
def _watching(
    server: _Predictor, project_key: str, tasks: range, show: Callable[[Progress], object]
) -> Iterator[None]:
    """Look at a project's progress every second, in a thread, until the block ends.

    A look that fails is left out: the block's own request says what is wrong.
    """
    try:
        before = server.progress(project_key).last_round
    except BackendError:
        yield
        return

    def look() -> None:
        with suppress(BackendError):
            show(server.progress(project_key, tasks.start, tasks.stop - 1, before))

    with repeatedly(look, _EVERY, "camvo-watch"):
        yield


_SAMPLE = 200
"""Tasks that are compared with the ledger at the end of a run."""

_TRIES = 4
"""Consecutive requests without any prediction after which the open tasks are given up."""

_PAUSE = 1.0
"""Seconds to wait before repeating such a request, multiplied by how many there were."""


_AWAY_PAUSE = 5.0
"""Seconds between two tries while a server is away."""


@dataclass(slots=True)
class _Patience:
    """Repeats what fails because a server is away, for ``seconds`` at most."""

    seconds: float = 0.0

    def with_servers(self, request: Callable[[], _Answer], show: Callable[[str], object]) -> _Answer:
        """Return the answer of a request, which may be sent again although it was heard.

        ``show`` is called with what is waited for, in words, and with nothing once that is back.
        """
        began, since = 0.0, ""
        while True:
            try:
                answer = request()
            except (LabelStudioUnreachableError, BackendAwayError) as error:
                if not since:
                    began, since = time.monotonic(), time.strftime("%H:%M")
                if time.monotonic() - began >= self.seconds:
                    raise
                most = f"{self.seconds / 3600.0:.2g} hours at most"
                show(f"waiting for {error.where} since {since}, {most}: {error.message}")
                time.sleep(_AWAY_PAUSE)
            else:
                if since:
                    show("")
                return answer


@dataclass(frozen=True, slots=True)
class PredictionRun:
    """One run over one project; its tally says what was done so far, also after an interruption.

    ``refresh`` also updates predictions to what the backend says now, unless somebody has annotated the task
    or begun to; ``below`` limits that to predictions with a lower score. ``failed`` asks only about tasks on
    which the backend failed before, ``only`` about those with these numbers, and about ``most`` tasks at
    most. Tasks with annotations are asked about only with ``annotated``. ``batch`` tasks are in one request.
    With ``in_order`` tasks are asked about in the order of their numbers, otherwise in a random one.
    With ``waits`` it waits while Label Studio or the backend is away, as long as a job may wait for a model.
    """

    client: Client
    predictor: _Predictor
    project: int
    key: str
    label_config: str
    model_version: str
    refresh: bool = False
    below: float = ALL
    failed: bool = False
    annotated: bool = False
    in_order: bool = False
    only: Sequence[int] | None = None
    batch: int = 50
    most: int | None = None
    waits: bool = False
    tally: Tally = field(default_factory=Tally)
    patience: _Patience = field(default_factory=_Patience, repr=False)

    def __call__(self, advance: Advance) -> Tally:
        """Go through the project once."""
        tally, asked, seen = self.tally, 0, list[int]()
        before = self._progress()
        spent_before = before.spent_usd - tally.spent_usd
        for wanted in self._wanted(seen, advance):
            chosen = wanted[: None if self.most is None else self.most - asked]
            asked += len(chosen)
            shown = _Shown(advance, tally, spent_before, len(chosen))
            answers = self._answers(chosen, tally, shown) if chosen else {}
            if answers:
                self._with_servers(partial(self._store_anew, answers, tally))
            if chosen:
                tally.asked += len(chosen)
                tally.spent_usd = self._progress().spent_usd - spent_before
                tally.usd_asked = tally.spent_usd
            shown.all()
            if asked == self.most:
                break
        after = self._progress()
        tally.spent_usd = after.spent_usd - spent_before
        self.check(seen, everything=after.countings > before.countings)
        return tally

    def _with_servers(self, request: Callable[[], _Answer]) -> _Answer:
        """Return the answer of a request, which is repeated while Label Studio or the backend is away."""

        def show(text: str) -> None:
            self.tally.awaited = text

        return self.patience.with_servers(request, show)

    def _progress(self) -> Progress:
        """How far the project is; it also says how long the run may wait."""
        progress = self._with_servers(lambda: self.predictor.progress(self.key))
        if self.waits and progress.patience:
            self.patience.seconds = progress.patience
        return progress

    def _tasks(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Tasks as they are in Label Studio now."""
        return self._with_servers(lambda: self.client.tasks(self.project, numbers))

    def _wanted(self, seen: list[int], advance: Advance) -> Iterator[list[dict[str, Any]]]:
        """Read the tasks to ask about, portion by portion, and add the number of each task to ``seen``.

        They come in a random order that is the same in every run, since plans learn from the first tasks, and
        projects are often sorted by source, date or label.
        """
        tally, in_order = self.tally, self.in_order or self.failed or self.only is not None
        numbers: list[int] = []

        def leave(tasks: int) -> None:
            tally.unchanged += tasks
            advance(tasks)

        for page, wanted in self.pages():
            seen += [task["id"] for task in page]
            tally.annotated += sum(map(self._is_left_out, page))
            leave(len(page) - len(wanted))
            if in_order:
                yield wanted
            else:
                numbers += [task["id"] for task in wanted]
        numbers.sort(key=lambda number: random_draw("order", self.key, number))
        for portion in portions(numbers, self.batch):
            wanted = [*filter(self._is_wanted, self._tasks(portion))]
            leave(len(portion) - len(wanted))
            yield wanted

    def check(self, numbers: Sequence[int], *, everything: bool = False) -> None:
        """Compare what Label Studio shows of tasks with the ledger, and correct it.

        Votes that are counted again between an answer and its storing are missed by both deliveries. Unless
        ``everything`` is to be compared at once, all tasks are compared only if a random sample differs.
        """
        if not everything:
            newest = self._progress().last_round
            draw = partial(random_draw, f"check {newest}", self.key)
            if not self._correct_all(nsmallest(_SAMPLE, numbers, draw)):
                return
        self._correct_all(numbers)

    def _correct_all(self, numbers: Sequence[int]) -> int:
        """Correct what Label Studio shows of tasks, some at a time; return how many differed."""
        return sum(self._correct(portion) for portion in portions(numbers, self.batch))

    def _correct(self, numbers: Sequence[int]) -> int:
        """Correct what Label Studio shows of tasks that nobody is at work on; return how many differed."""
        tasks, _ = predictions.untouched(self._tasks(numbers) if numbers else [])
        stored, found = Tally(), self._ask(tasks, Tally(), stored_only=True) if tasks else {}
        answers = {task: answer.predictions for task, answer in found.items() if answer.predictions}
        self._store([task for task in tasks if task["id"] in answers], answers, stored, correct=True)
        self.tally.repaired += stored.created + stored.replaced
        return stored.created + stored.replaced

    def pages(self) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        """Read the project page by page: the tasks, and those among them that the backend is asked about."""
        numbers = self.only
        if numbers is None and self.failed:
            numbers = self._with_servers(lambda: self.predictor.failed_tasks(self.key))
        pages = self._every_page() if numbers is None else map(self._tasks, portions(numbers, self.batch))
        for page in pages:
            yield page, [*filter(self._is_wanted, page)]

    def _is_wanted(self, task: Mapping[str, Any]) -> bool:
        """Whether the backend is asked about a task."""
        if self._is_left_out(task):
            return False
        return self._is_renewed(task) or self.failed or not self._predictions(task)

    def _is_renewed(self, task: Mapping[str, Any]) -> bool:
        """Whether a task's prediction is to be what the backend says now.

        Of the tasks that people have labelled it is only if it is of all.
        """
        if self.below < ALL and predictions.is_annotated(task):
            return False
        scores = [each.get("score") or 0.0 for each in self._predictions(task)]
        return self.refresh and is_below(min(scores, default=0.0), self.below)

    def _is_left_out(self, task: Mapping[str, Any]) -> bool:
        """Whether a task is not asked about because people have labelled it already."""
        return not self.annotated and predictions.is_annotated(task) and not self._predictions(task)

    def _predictions(self, task: Mapping[str, Any]) -> list[dict[str, Any]]:
        return predictions.of_version(task, self.model_version)

    def _every_page(self) -> Iterator[list[dict[str, Any]]]:
        last = 0
        while page := self._page(last):
            yield page
            last = page[-1]["id"]

    def _page(self, after: int) -> list[dict[str, Any]]:
        """The next tasks by number; none at the end."""
        return self._with_servers(
            lambda: next(self.client.pages(self.project, size=self.batch, after=after), [])
        )

    def _answers(
        self, tasks: Sequence[dict[str, Any]], tally: Tally, shown: _Shown
    ) -> dict[int, list[dict[str, Any]]]:
        """Return task → its predictions; repeat the request for tasks without one while that yields any.

        A task that failed is not asked about again in the same run: a model has only a few attempts at it,
        and the next one would fail for the same reason.
        """
        answers: dict[int, list[dict[str, Any]]] = {}
        fruitless = 0
        remaining = list(tasks)
        numbers = [task["id"] for task in tasks]
        with _watching(self.predictor, self.key, range(min(numbers), max(numbers) + 1), shown):
            while remaining:
                results = self._ask(remaining, tally)
                answers |= {
                    task: answer.predictions for task, answer in results.items() if answer.predictions
                }
                for answer in results.values():
                    _count(answer, tally)
                unfinished = [task for task in remaining if _is_unfinished(results.get(task["id"]))]
                waits = any(answer.code == OUTAGE for answer in results.values())
                fruitless = 0 if waits or len(unfinished) < len(remaining) else fruitless + 1
                if fruitless == _TRIES:
                    tally.undecided += len(unfinished)
                    break
                if fruitless or waits:
                    time.sleep(max(fruitless, 1) * _PAUSE)
                remaining = unfinished
        return answers

    def _ask(
        self, tasks: Sequence[dict[str, Any]], tally: Tally, *, stored_only: bool = False
    ) -> dict[int, TaskAnswer]:
        """Ask the backend; a task that is too large for a request is left out, and counted."""

        def predict(some: Sequence[dict[str, Any]]) -> dict[int, TaskAnswer]:
            results = self._with_servers(
                lambda: self.predictor.predict(self.key, self.label_config, some, stored_only=stored_only)
            )
            return {task["id"]: answer for task, answer in zip(some, results, strict=True)}

        found: dict[int, TaskAnswer] = {}
        for answers in in_requests(tasks, predict):
            tally.too_large += answers is None
            found |= answers or {}
        return found

    def _store_anew(self, answers: Mapping[int, list[dict[str, Any]]], tally: Tally) -> None:
        """Store what Label Studio lacks now of the answers; safe to repeat."""
        self._store(self.client.tasks(self.project, list(answers)), answers, tally)

    def _store(
        self,
        tasks: Sequence[dict[str, Any]],
        answers: Mapping[int, list[dict[str, Any]]],
        tally: Tally,
        *,
        correct: bool = False,
    ) -> None:
        """Store the answers in Label Studio.

        The tasks are as they are there now. Answering may have taken minutes, during which a task may have
        been opened (Label Studio then stores a prediction itself) or deleted.
        """
        new: list[dict[str, Any]] = []
        unchanged = 0
        replaced: list[predictions.Outdated] = []
        for task in tasks:
            answer = answers[task["id"]]
            absent = [each for each in answer if not predictions.of_version(task, each["model_version"])]
            new += [{"task": task["id"], **prediction} for prediction in absent]
            found = []
            if (correct or self.refresh or self.failed) and not predictions.is_touched(task):
                found = list(predictions.outdated(task, answer))
            replaced += found
            unchanged += not (absent or found)
        predictions.replace_all(self.client, replaced)
        tally.replaced += len(replaced)
        nested = [prediction for prediction in new if _has_paths(prediction)]
        for prediction in nested:
            self.client.add_prediction(prediction)
            tally.stored += 1
        flat = [prediction for prediction in new if not _has_paths(prediction)]
        stored = self.client.import_predictions(self.project, flat) if flat else 0
        tally.stored += stored
        refused = len(flat) - stored
        tally.refused += refused
        tally.created += max(len({prediction["task"] for prediction in new}) - refused, 0)
        tally.unchanged += unchanged


def _has_paths(prediction: Mapping[str, Any]) -> bool:
    """Whether it answers nested Choices, which Label Studio's bulk import does not accept."""
    return any(
        isinstance(choice, list)
        for item in prediction["result"]
        for choice in item["value"].get("choices", ())
    )


def _is_unfinished(answer: TaskAnswer | None) -> bool:
    """Whether a task may have a prediction if it is asked about again soon."""
    return answer is not None and answer.code in {DEADLINE, CROWDED, OUTAGE}


def _count(answer: TaskAnswer, tally: Tally) -> None:
    """Count a task that gets no prediction, or one without one of its questions."""
    if answer.code is None or _is_unfinished(answer):
        return
    if answer.code == AUDIT:
        tally.blind += 1
        return
    if answer.code == BatchPendingError.code:
        tally.waiting += 1
        return
    counted = tally.partly if answer.predictions else tally.failed
    counted[answer.code] += 1
    if answer.fix is not None:
        tally.fixes.setdefault(answer.code, answer.fix)


class _Shown:
    """The tasks of one page that the progress has counted, and the money spent so far."""

    def __init__(self, advance: Advance, tally: Tally, spent_before: float, tasks: int) -> None:
        self._advance, self._tally, self._before, self._tasks = advance, tally, spent_before, tasks
        self._counted = 0

    def __call__(self, progress: Progress) -> None:
        """Show what the server said."""
        self._tally.spent_usd = progress.spent_usd - self._before
        self._tally.awaited = progress.waiting
        decided = min(progress.tasks, self._tasks)
        self._move(max(decided - self._counted, 0))

    def all(self) -> None:
        """Show that the page is finished."""
        self._tally.awaited = ""
        self._move(self._tasks - self._counted)

    def _move(self, tasks: int) -> None:
        self._counted += tasks
        self._advance(tasks)
