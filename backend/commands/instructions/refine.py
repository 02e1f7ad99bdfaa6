"""``camvo refine``: a model proposes instructions, and tasks that it never saw judge them."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Final

from rich.console import Console

from backend.annotation.job import random_draw
from backend.annotation.replies import PASSING
from backend.annotation.trials import TriedTask
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.process import await_answers
from backend.commands.bulk.quoting import agree_to
from backend.commands.instructions.asking import (
    Outcome,
    annotated_tasks,
    ask_about,
    is_in_project,
    opened_on_terminal,
    own_text,
    peoples_label,
    price_of,
    with_text,
)
from backend.commands.instructions.codebook import VOTE, Codebook, CodebookOptions, collect, how_to_adopt
from backend.commands.instructions.trial import change, compare_texts
from backend.commands.shared.arguments import ChosenTasks
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import plain_table, progress_bar, say
from backend.datasets.sinks import whole_file
from backend.datasets.tasks import DatasetTask, IndexedTasks
from backend.errors import (
    BadAnswerError,
    BudgetExhaustedError,
    ConfigError,
    CutOffError,
    RefusedError,
    UnusableAnswersError,
)
from backend.ledger import answers
from backend.ledger.database.statements import portions
from backend.ledger.human_annotations import Annotation
from backend.ledger.money import Purse, balance, from_picodollars
from backend.ledger.projects import short_name
from backend.models.call_ledger import ATTEMPTS, ModelQuery, PaidAnswer, attempt_key
from backend.models.model import Model
from backend.questions.prompts.messages import Messages
from backend.questions.prompts.proposals import (
    LONGEST_CHANGE,
    MOST_CHANGES,
    PROPOSAL_SCHEMA,
    ConfusedCase,
    ProposedChange,
    is_proposal,
    proposal_messages,
    read_proposals,
)
from backend.server.status import formats
from backend.threads import WorkUnderWay
from camvo.numerics.sequential_tests import Paired, Race, compare_paired

_CASES: Final = 24
"""The most cases that the proposing model is shown."""

_MAY_LEAD: Final = 4
"""One labelled task in this many may be a case; the others judge. Chance divides them before anybody looks at
votes: if all errors were shown, the tasks that judge would have none, and would flatter the present text."""

_FEWEST: Final = 20
"""The fewest labelled tasks that can judge."""

_AT_ONCE: Final = 20
"""Tasks that are asked about between two looks."""

_LONGEST_ANSWER: Final = 3000
"""The most tokens of the proposing model's answer."""

_PRESENT: Final = "present"


@dataclass(frozen=True, slots=True)
class RefineOptions:
    """Which model proposes (``None``: the most expensive), the most tasks that judge, and where pages go."""

    by: str | None
    sample: int
    out: Path


@dataclass(frozen=True, slots=True)
class _JudgedChange:
    """A proposed change, and what the tasks say that did not lead to it."""

    replaced: str
    written: str
    why: str
    led: Sequence[str]
    found: Paired | None
    verdict: str
    text: str
    page: str


@dataclass(frozen=True, slots=True)
class _Refinement:
    """What came out: the changes that a model proposed by so many ``cases``, judged on other ``tasks``.

    ``left_out`` says of how many tasks they could not judge, by reason, and ``not_made`` of how many changes
    they cannot be made. ``in_project`` says that the text is that of the project in Label Studio.
    """

    project: str
    in_project: bool
    by: str
    cases: int
    tasks: int
    left_out: Mapping[str, int]
    out_of_money: bool
    paid: float
    changes: Sequence[_JudgedChange]
    not_made: Mapping[str, int]


def run_refine(chosen: ChosenTasks, wanted: RefineOptions, *, as_json: bool) -> None:
    """Refine the instructions of a file or of a project of Label Studio, and print what was found."""
    with opened_on_terminal(chosen, as_json=as_json) as (jobs, tasks, console):
        found = _refine_on(jobs, tasks, wanted, chosen.options, console)
    if as_json:
        print(json.dumps(asdict(found), indent=2))  # noqa: T201 - the output
        return
    _print_refinement(console, found, chosen.source, chosen.config)


def _refine_on(
    jobs: DatasetJobs, tasks: IndexedTasks, wanted: RefineOptions, options: LabelOptions, console: Console
) -> _Refinement:
    """Let a model propose changes, and judge them on tasks that it was not shown."""
    by = wanted.by or _most_expensive(jobs)
    writer = jobs.process.pool.add_writer(by, _LONGEST_ANSWER)
    annotated = annotated_tasks(jobs)
    judges = _judges(jobs, tasks, annotated, wanted.sample)
    shown = CodebookOptions(wanted.out, _CASES)
    cases, ids = _cases(collect(jobs, tasks, shown, quotable=lambda number: _may_lead(jobs, number)))
    text = own_text(jobs)
    asked = _Proposing(
        replace(jobs, batching=None, waits=False),
        writer,
        proposal_messages(jobs.config.questions, text, cases),
    )
    before = replace(asked.jobs, purse=_agreed(asked, text, judges, options, console))
    wanted.out.mkdir(parents=True, exist_ok=True)
    content, paid = replace(asked, jobs=before).ask(next(iter(ids)), wanted.out, console)
    proposals = read_proposals(content, text, len(cases))
    race = _Judging(before, [with_text(before, each.text) for each in proposals.changes], annotated)
    race.run(judges, console)
    return _Refinement(
        project=short_name(jobs.project),
        in_project=is_in_project(jobs),
        by=by,
        cases=len(cases),
        tasks=race.tasks,
        left_out=dict(race.left_out),
        out_of_money=race.out_of_money,
        paid=paid + race.paid,
        changes=[
            _judged(race, str(place), each, list(ids.values()), wanted.out)
            for place, each in enumerate(proposals.changes, 1)
        ],
        not_made=proposals.left_out,
    )


def _most_expensive(jobs: DatasetJobs) -> str:
    """The model with the highest price of output, which is the strongest one as far as a price can say."""
    pool = jobs.process.pool
    writers = [model.name for model in jobs.settings.models if not model.is_embedded]
    if not writers:
        raise ConfigError("no model of the pool writes texts", where="models", fix="add one that does")
    return max(writers, key=lambda name: pool[name].model.prices.output)


def _may_lead(jobs: DatasetJobs, number: int) -> bool:
    """Whether a labelled task may be a case."""
    return random_draw("lead", jobs.project, number) % _MAY_LEAD == 0


def _cases(book: Codebook) -> tuple[list[ConfusedCase], dict[int, str]]:
    """The cases to show, and their tasks: number → id. The most frequent confusions come first, in turns."""
    confusions = [
        (confusion.weight, entry, list(confusion.examples))
        for entry in book.questions.values()
        for label in entry.labels.values()
        for _, confusion in label.frequent
    ]
    confusions.sort(key=lambda found: found[0], reverse=True)
    turns = zip_longest(*([(entry, example) for example in examples] for _, entry, examples in confusions))
    cases: list[ConfusedCase] = []
    ids: dict[int, str] = {}
    for entry, example in (found for turn in turns for found in turn if found is not None):
        if len(cases) == _CASES or example.number in ids:
            continue
        ids[example.number] = example.task
        votes = Counter(entry.named(vote) for voter, vote in example.votes.items() if voter != VOTE)
        human = None if example.human is None else entry.named(example.human)
        cases.append(ConfusedCase(entry.name, example.texts, human, votes))
    if not cases:
        raise ConfigError(
            "models contradict neither people nor one another",
            where=f"project {book.project}",
            fix="label more tasks first; blind ones are never shown to the model that proposes",
        )
    return cases, ids


def _judges(
    jobs: DatasetJobs, tasks: IndexedTasks, annotated: Mapping[int, object], most: int
) -> list[DatasetTask]:
    """Random labelled tasks, none of which may be a case."""
    found = heapq.nsmallest(
        most,
        (
            task
            for task in tasks.first_rows()
            if task.number in annotated and not _may_lead(jobs, task.number)
        ),
        key=lambda task: random_draw("refine", jobs.project, task.number),
    )
    if len(found) < _FEWEST:
        raise ConfigError(
            f"people have labelled {formats.of(len(found), 'task')} that may judge a text, too few to"
            " judge by",
            where=f"project {short_name(jobs.project)}",
            fix=f"label about {(_FEWEST - len(found)) * _MAY_LEAD // (_MAY_LEAD - 1) + 1} more",
        )
    return found


@dataclass(frozen=True, slots=True)
class _Proposing:
    """What a model is asked for a proposal: the arm that writes texts, and the jobs whose purse pays."""

    jobs: DatasetJobs
    writer: str
    messages: Messages

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self.jobs.process.pool[self.writer].model

    @property
    def name(self) -> str:
        """The model's name for people."""
        return self.writer.partition("/")[0]

    def stored(self) -> str | None:
        """The proposal to the prompt that the ledger has; ``None`` if it has none."""
        fingerprint = self.model.fingerprint(self.messages, PROPOSAL_SCHEMA)
        with self.jobs.process.ledger.read() as connection:
            keys = [attempt_key(fingerprint, attempt) for attempt in range(ATTEMPTS)]
            stored = answers.find_by_key(connection, keys)
        return next((each.content for each in stored.values() if is_proposal(each.content)), None)

    def ask(self, task: int, out: Path, console: Console) -> tuple[str, float]:
        """The answer, and what it cost, in $. It is kept with a task, the first case.

        Also after Ctrl-C, which waits for the answer.
        """
        jobs = self.jobs
        query = ModelQuery(
            jobs.project,
            task,
            self.writer,
            self.messages,
            PROPOSAL_SCHEMA,
            jobs.settings.budget,
            purse=jobs.purse,
        )
        patience = 3600.0 * jobs.settings.patience_hours
        asked: WorkUnderWay[str, PaidAnswer] = WorkUnderWay(jobs.process.thread.submit)
        try:
            asked.start(self.writer, jobs.process.queries.ask(query, patience, is_proposal))
            answer = asked.next_ended()[1].result()
        except KeyboardInterrupt:
            await_answers(jobs.process, asked, self.model.settings.timeout, console)
            raise
        except UnusableAnswersError:
            raise BadAnswerError(
                f"none of its {ATTEMPTS} answers to these cases is a proposal, so it is not asked again",
                where=self.name,
                fix="let another model propose, by --by, or label more tasks, which makes other cases",
            ) from None
        except (BadAnswerError, RefusedError) as error:
            what = "it is empty or unreadable" if isinstance(error, BadAnswerError) else "the model refused"
            cut_off = isinstance(error, CutOffError)
            paid = 0.0 if error.usage is None else error.usage.cost
            raise _no_proposal(self.name, _CUT_OFF if cut_off else what, paid, again=not cut_off) from None
        if is_proposal(answer.content):
            return answer.content, answer.cost
        said = out / "answer.txt"
        with whole_file(said) as file:
            file.write(answer.content.encode())
        what = f"{f'{_CUT_OFF}, and ' if answer.cut_off else ''}it has no list of changes: {said}"
        raise _no_proposal(self.name, what, answer.cost, again=not answer.cut_off)


def _agreed(
    asked: _Proposing, text: str, judges: Sequence[DatasetTask], options: LabelOptions, console: Console
) -> Purse:
    """Say what it costs at most, ask whether to buy it, and return the purse that holds no more.

    Texts that are not written yet are priced at the longest that a change may make them.
    """
    jobs = asked.jobs
    if (stored := asked.stored()) is None:
        proposal = asked.model.ceiling(asked.messages, PROPOSAL_SCHEMA)
        times = Counter({f"{text}\n{'word ' * (LONGEST_CHANGE // 5)}": MOST_CHANGES})
    else:
        proposal, times = 0.0, Counter(each.text for each in read_proposals(stored, text, 0).changes)
    sides = [(jobs, 1), *((with_text(jobs, each), count) for each, count in times.items())]
    with progress_bar(console, "counting tokens", len(sides) * len(judges), transient=True) as advance:
        judging = sum(count * price_of(side, judges, advance).usd for side, count in sides)
    judging += _held(jobs) if judging else 0.0
    say(
        console,
        f"a proposal by {asked.name}: at most {formats.dollars(proposal)};"
        f" judging up to {MOST_CHANGES} changes on {formats.of(len(judges), 'labelled task')}: at most"
        f" {formats.dollars(judging)}, less where a text is dropped early",
    )
    agree_to(proposal + judging, options, console)
    with jobs.process.ledger.read() as connection:
        spent = from_picodollars(balance(connection, jobs.project, "refine").spent)
    quoted = spent + proposal + judging
    return Purse("refine", quoted if options.budget is None else min(quoted, options.budget))


def _held(jobs: DatasetJobs) -> float:
    """What the calls about one task may hold back of the money until they end, in $."""
    models = (jobs.process.pool[settings.name].model for settings in jobs.settings.models)
    return (1 + MOST_CHANGES) * sum(model.prices.cost(0, model.settings.max_tokens) for model in models)


_CUT_OFF: Final = f"it was cut off after {_LONGEST_ANSWER:,} tokens"


def _no_proposal(name: str, what: str, paid: float, *, again: bool) -> BadAnswerError:
    another = "let another model propose, by --by"
    return BadAnswerError(
        f"the answer is no proposal: {what}; paid {formats.dollars(paid)}",
        where=name,
        fix=f"run the command again, which asks once more, or {another}" if again else another,
    )


class _Judging:
    """The race of the texts on tasks that did not lead to them."""

    def __init__(
        self, before: DatasetJobs, after: Sequence[DatasetJobs], annotated: Mapping[int, Sequence[Annotation]]
    ) -> None:
        self.sides = {_PRESENT: before} | {str(place): side for place, side in enumerate(after, 1)}
        self.race = Race(list(self.sides)) if after else None
        self.annotated = annotated
        self.asked: list[tuple[DatasetTask, dict[str, Outcome]]] = []
        self.rewards: list[dict[str, float]] = []
        self.left_out = Counter[str]()
        self.paid = 0.0
        self.out_of_money = False

    @property
    def tasks(self) -> int:
        """The number of tasks that have judged."""
        return len(self.rewards)

    def run(self, judges: Sequence[DatasetTask], console: Console) -> None:
        """Ask about some tasks after others, until the race is over or money or tasks are."""
        if self.race is None:
            return
        awaited = self.sides[_PRESENT].process.awaited
        with progress_bar(console, "judging", len(judges) * len(self.sides), waiting=awaited) as advance:
            for some in portions(judges, _AT_ONCE):
                ways = self.race.running
                outcomes = ask_about([self.sides[way] for way in ways], some, console, advance)
                for task, found in zip(some, outcomes, strict=True):
                    self._add(task, dict(zip(ways, found, strict=True)))
                if self.race.is_over or self.out_of_money:
                    return

    def _add(self, task: DatasetTask, outcomes: dict[str, Outcome]) -> None:
        assert self.race is not None  # noqa: S101 - there are texts to judge
        self.asked.append((task, outcomes))
        tried = [outcome for outcome in outcomes.values() if isinstance(outcome, TriedTask)]
        self.paid += sum(one.paid for one in tried)
        self.out_of_money |= any(BudgetExhaustedError.code in one.failures.values() for one in tried)
        rewards = _rewards(outcomes, self.annotated[task.number])
        if isinstance(rewards, str):
            self.left_out[rewards] += 1
        elif not self.race.is_over:
            self.rewards.append(rewards)
            self.race.add({way: rewards[way] for way in self.race.running})

    def verdict(self, way: str) -> str:
        """What the race says about a text."""
        assert self.race is not None  # noqa: S101 - there are texts to judge
        if way == self.race.best:
            return "best"
        if way in self.race.dropped:
            return "dropped"
        return "better" if way in self.race.proven else "undecided"

    def found(self, way: str) -> Paired | None:
        """A text beside the present one, on the tasks that both were tried on."""
        return compare_paired([(row[_PRESENT], row[way]) for row in self.rewards if way in row])

    def pairs(self, way: str) -> list[tuple[DatasetTask, tuple[Outcome, Outcome]]]:
        """What models said about the tasks with the present text and with another one."""
        return [(task, (found[_PRESENT], found[way])) for task, found in self.asked if way in found]


_UNDECIDED: Final = "people say nothing that counts, or are tied"


def _rewards(outcomes: Mapping[str, Outcome], annotations: Sequence[Annotation]) -> dict[str, float] | str:
    """How right each text's vote is, or why the task cannot judge: the code of a failure, or people.

    A text to which all models answer something that is no vote is wrong.
    """
    rewards: dict[str, float] = {}
    for way, outcome in outcomes.items():
        if isinstance(outcome, str):
            return outcome
        if passing := sorted(PASSING.intersection(outcome.failures.values())):
            return passing[0]
        values = []
        for name, question in outcome.questions.items():
            human = peoples_label(annotations, question)
            if human is not None:
                label = outcome.labels.get(name)
                values.append(0.0 if label is None else question.aggregation.reward(label, human))
        if not values:
            return _UNDECIDED
        rewards[way] = fmean(values)
    return rewards


def _judged(race: _Judging, way: str, change: ProposedChange, ids: Sequence[str], out: Path) -> _JudgedChange:
    """Write a change's text and its page, and return what was found."""
    text, page = out / f"{way}.txt", out / f"{way}.html"
    with whole_file(text) as file:
        file.write(f"{change.text}\n".encode())
    before = race.sides[_PRESENT]
    pairs = race.pairs(way)
    tasks, outcomes = [task for task, _ in pairs], [both for _, both in pairs]
    compare_texts(before, tasks, race.annotated, outcomes).write_page(page)
    return _JudgedChange(
        replaced=change.replaced,
        written=change.written,
        why=change.why,
        led=[ids[number - 1] for number in change.cases],
        found=race.found(way),
        verdict=race.verdict(way),
        text=str(text),
        page=str(page),
    )


_OUT_OF_MONEY: Final = "the money that was agreed to has ended before the texts were told apart"

_VERDICTS: Final[Mapping[str, str]] = {
    "best": "better than the present text, and the best",
    "better": "better than the present text",
    "dropped": "dropped: another text is better",
    "undecided": "not told apart yet",
}


def _print_refinement(console: Console, found: _Refinement, source: Path | int, config: Path | None) -> None:
    """Print the changes with their verdicts, and how to adopt one."""
    lines = [
        f"{found.by} was shown {formats.of(found.cases, 'case')} and proposes"
        f" {formats.of(len(found.changes), 'change')} that can be made;"
        f" {formats.of(found.tasks, 'other task')} judged; paid {formats.dollars(found.paid)}",
        *(f"{formats.of(number, 'change')} left out: {why}" for why, number in found.not_made.items()),
        *(f"{formats.of(number, 'task')} left out: {why}" for why, number in sorted(found.left_out.items())),
        *([_OUT_OF_MONEY] if found.out_of_money else []),
    ]
    for place, each in enumerate(found.changes, 1):
        lines += ["", f"change {place}: {_VERDICTS[each.verdict]}", f"  why: {each.why}"]
        lines += [f"- {line}" for line in each.replaced.splitlines()]
        lines += [f"+ {line}" for line in each.written.splitlines()]
        lines.append(
            f"  led to by: {', '.join(each.led) or 'no task that it names'}; {each.text}, {each.page}"
        )
    for line in lines:
        say(console, line)
    table = plain_table("change", "tasks", "before", "after", "difference")
    for place, each in enumerate(found.changes, 1):
        if (one := each.found) is not None:
            accuracies = formats.percent(one.before), formats.percent(one.after)
            table.add_row(str(place), formats.count(one.tasks), *accuracies, change(one))
    if table.row_count:
        console.print(table)
    best = next((each for each in found.changes if each.verdict == "best"), None)
    if best is None:
        advice = "no change is shown to be better: keep the present text"
    else:
        number = source if isinstance(source, int) and found.in_project else None
        advice = how_to_adopt(best.text, number, config)
    say(console, advice)
