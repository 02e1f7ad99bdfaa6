"""Labels changed: what the user writes, checked against the label config, and what it makes of each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from backend.annotation.job_questions import is_below
from backend.commands.bulk.dataset_jobs import ScoreLevels
from backend.commands.shared.arguments import LabelChanges, listed
from backend.errors import ConfigError
from backend.learning.label_schemes import Transition
from backend.ledger.epochs import DecidedRounds, DecidedTask, TaskCosts, costs_of_a_task
from backend.ledger.projects import Schemes
from backend.questions import ConfigQuestion
from backend.questions.relabelling import LabelFates, label_values, labels_of
from backend.questions.xml import Label
from backend.server.status import formats
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE, label_posterior
from camvo.votes.relabelling import Relabelling


def fates_of(wanted: LabelChanges, before: Mapping[str, ConfigQuestion]) -> LabelFates:
    """Return what becomes of labels."""
    return _Fates(before, wanted).read()


class _Fates:
    """Reads what is to become of labels."""

    def __init__(self, before: Mapping[str, ConfigQuestion], wanted: LabelChanges) -> None:
        self._wanted = wanted
        if wanted.control is not None and wanted.control not in before:
            raise ConfigError(
                f"no question is called {wanted.control!r}",
                where="--control",
                fix=f"one of {', '.join(before)}",
            )
        names = before if wanted.control is None else [wanted.control]
        self._labels = {name: label_values(before[name]) for name in names}
        self._trees = {name: labels_of(before[name]) for name in names}

    def read(self) -> LabelFates:
        """What becomes of labels."""
        maps: dict[str, dict[str, str | None]] = {}
        said: list[tuple[str, str, str, list[str], str]] = []
        for option, text, sources, target in self._changes():
            control = self._control(option, text, sources)
            labels = maps.setdefault(control, {})
            for source in sources:
                if labels.setdefault(source, target) != target:
                    raise ConfigError(
                        f"says twice what becomes of {source!r}", where=option, fix="say it once"
                    )
            if target is not None:
                said.append((control, option, text, sources, target))
        for control, option, text, sources, target in said:
            new = {label: maps[control].get(label, label) for label in self._labels[control]}
            if {label for label, to in new.items() if to == target} != {*sources}:
                raise ConfigError(
                    f"{text!r} would give {target!r} two sources",
                    where=option,
                    fix=f"if they are to be one label, say so: --merge {','.join(sources)},…={target}",
                )
        parts, added = self._split_labels(maps), self._added_labels()
        fates = LabelFates(maps, parts, added)
        self._require_free_names(fates)
        return fates

    def _split_labels(self, maps: dict[str, dict[str, str | None]]) -> dict[str, dict[str, list[str]]]:
        """Question → label → its parts; the label itself is given up."""
        parts: dict[str, dict[str, list[str]]] = {}
        for text in self._wanted.splits or ():
            old, new = self._split("--split", text)
            names = listed(new)
            if len({*names}) < 2:
                raise ConfigError(f"{text!r} is not old=a,b", where="--split", fix="name two parts or more")
            control = self._control("--split", text, [old])
            if maps.setdefault(control, {}).setdefault(old, None) is not None:
                raise ConfigError(f"says twice what becomes of {old!r}", where="--split", fix="say it once")
            parts.setdefault(control, {})[old] = names
        return parts

    def _added_labels(self) -> dict[str, dict[str, list[str]]]:
        """Question → label that is added → the labels of whose tasks some may get it."""
        added: dict[str, dict[str, list[str]]] = {}
        for text in self._wanted.adds or ():
            new, _, near = (part.strip() for part in text.partition("="))
            listed = self._listed(near)
            control = self._control("--add", text, listed)
            added.setdefault(control, {})[new] = listed
        return added

    def _require_free_names(self, fates: LabelFates) -> None:
        """Check that no new label has the name of a label that is there: its answers would become those."""
        for name, labels in self._labels.items():
            there = [*labels, *(to for to in fates.maps.get(name, {}).values() if to is not None)]
            new = fates.new(name)
            taken = next((label for place, label in enumerate(new) if label in [*there, *new[:place]]), None)
            if taken is not None:
                raise ConfigError(
                    f"{name}: {taken!r} is the name of another label",
                    where="--split" if name in fates.parts else "--add",
                    fix="give every new label a name of its own, also the largest part of the old one",
                )

    def _changes(self) -> Iterator[tuple[str, str, list[str], str | None]]:
        for text in self._wanted.renames or ():
            old, new = self._split("--rename", text)
            below = [found for tree in self._trees.values() if (found := _renamed_node(tree, old, new))]
            for label, called in (below[0] if len(below) == 1 else {old: new}).items():
                yield "--rename", text, [label], called
        for text in self._wanted.merges or ():
            old, new = self._split("--merge", text)
            yield "--merge", text, self._listed(old), new
        for text in self._wanted.drops or ():
            yield "--drop", text, [text], None

    @staticmethod
    def _split(option: str, text: str) -> tuple[str, str]:
        old, equals, new = (part.strip() for part in text.partition("="))
        if not old or not equals or not new:
            example = {"--rename": "old=new", "--merge": "a,b=c", "--split": "old=a,b"}[option]
            raise ConfigError(f"{text!r} is not {example}", where=option, fix=f"write {example}")
        return old, new

    def _listed(self, text: str) -> list[str]:
        """The labels in a list; a label may have a comma."""
        known = {label for labels in self._labels.values() for label in labels}
        if text in known:
            return [text]
        return listed(text)

    def _control(self, option: str, text: str, sources: Sequence[str]) -> str:
        having = [name for name, labels in self._labels.items() if {*sources} <= {*labels}]
        if len(having) == 1:
            return having[0]
        if having:
            raise ConfigError(
                f"{text!r}: {', '.join(having)} have this label",
                where=option,
                fix="say which: --control NAME",
            )
        known = "; ".join(f"{name}: {', '.join(labels)}" for name, labels in self._labels.items() if labels)
        raise ConfigError(f"{text!r}: no question has this label", where=option, fix=f"labels are {known}")


def _renamed_node(labels: Iterable[Label], old: str, new: str) -> dict[str, str]:
    """The labels below a node of a tree of labels → what they are called once it has another name.

    ``old`` is the node's path or, if only one node has that, its own name, and ``new`` its name with or
    without the same path. Empty if there is no such node, or several, or if it would move in the tree.
    """
    paths = {label.value: label.path for label in labels if label.path is not None}
    between = {_separator(value, path) for value, path in paths.items() if len(path) > 1}
    if len(between) != 1:
        return {}
    [separator] = between
    nodes = {path[:depth] for path in paths.values() for depth in range(1, len(path) + 1)}
    called = [node for node in nodes if separator.join(node) == old]
    called = called or [node for node in nodes if node[-1] == old]
    *above, name = new.split(separator)
    if len(called) != 1 or tuple(above) not in {(), called[0][:-1]}:
        return {}
    [node] = called
    return {
        value: separator.join((*node[:-1], name, *path[len(node) :]))
        for value, path in paths.items()
        if path[: len(node)] == node
    }


def _separator(value: str, path: Sequence[str]) -> str:
    """What stands between the names of a path."""
    return value[len(path[0]) : value.index(path[1], len(path[0]))]


@dataclass(slots=True)
class CarriedTasks:
    """What becomes of a question's tasks, and what that costs by what they have cost so far.

    Attributes:
        chosen: whether it is by votes and scores which tasks are asked about again: labels are split or
            added, or ``--below`` is given.
        rounds: the rounds that are not carried over, so that their tasks are asked about again.
        labels: how many keep their label, or find one that they have under the new labels already.
        held: how many of these have one of earlier instructions.
        people: how many human labels are carried over.
        named: how many tasks have a label that is dropped or split, or from which a new one takes.
        doubtful: how many others have votes for such a label.
        low: how many others have a low score.
        unclear: how many tasks people have given a label that is split or dropped.
        levels: the scores of tasks that are blind, or that nobody has labelled.
    """

    costs: TaskCosts
    chosen: bool
    rounds: set[int] = field(default_factory=set)
    tasks: int = 0
    labels: int = 0
    held: int = 0
    people: int = 0
    named: int = 0
    doubtful: int = 0
    low: int = 0
    unclear: int = 0
    levels: ScoreLevels = field(default_factory=ScoreLevels)

    def add(self, task: DecidedTask, way: Relabelling, concern: _Concern, below: float | None) -> bool:
        """Count a task by its latest round, and return whether it is asked about again."""
        lost, concerned = way.vote(task.label) is None, concern(task)
        if task.deciding is None:
            self.levels.add(task.score)
        if lost or (concerned and concern.names(task.label)):
            self.named += 1
        elif concerned:
            self.doubtful += 1
        elif below is not None and task.deciding is None and is_below(task.score, below):
            self.low += 1
        else:
            return False
        return True

    def lines(self, how_to_look: str) -> Iterator[str]:
        """What is asked about again, and its price, as sentences."""
        if self.held:
            are = formats.verb_of(self.held, "are")
            yield f"  {self.held:,} of these labels {are} of earlier instructions"
        asked = self.named + self.doubtful + self.low
        share = f"{asked / self.tasks:.1%}" if self.tasks else "0%"
        about, most = (formats.dollars(asked * usd) for usd in self.costs)
        if asked or self.chosen:
            yield (
                f"  {asked:,} of {formats.of(self.tasks, 'task')} ({share}) are asked about again, for about"
                f" {about}, at most {most}: {self.named:,} have a label that is split, dropped or near a new"
                f" one, {self.doubtful:,} have votes for one, {self.low:,} a low score"
            )
        if self.chosen:
            yield "  more of those that are blind, or that nobody has labelled, are asked about again with"
            yield from (f"  {line}" for line in self.levels.lines(self.costs))
        if self.unclear:
            yield f"  {formats.of(self.unclear, 'human label')} to look at, kept as given: {how_to_look}"


def carried_tasks(
    schemes: Schemes,
    found: Transition,
    fates: LabelFates,
    before: Mapping[str, ConfigQuestion],
    below: float | None,
) -> dict[str, CarriedTasks]:
    """What becomes of the tasks of each question whose rounds are carried over.

    A task is asked about again if its latest label is lost or in doubt; then none of its earlier ones is
    carried over either, or it would keep that one.
    """
    counted = {}
    for scheme, way in found.present:
        control, question = scheme.control, before[scheme.control]
        place = (schemes.connection, schemes.project, control)
        tasks = CarriedTasks(costs_of_a_task(*place), bool(fates.new(control)) or below is not None)
        made = [each for each, _ in reversed(found.carried) if each.control == control]
        places = [
            tuple(DecidedRounds(*place, epoch).places() for epoch in (of.source or "", of.epoch))
            for of in made
        ]
        there = set[tuple[int, str]]().union(*(after for _, after in places))
        left = dict[tuple[int, str], bool]()
        for number, each in enumerate(made, 1):
            # What was left when labels changed comes back, whatever was asked since then.
            hidden = set[tuple[int, str]]().union(
                *(after - earlier for earlier, after in places[number:] if scheme.undo)
            )
            decided = DecidedRounds(*place, each.source or "")
            near, labels = fates.near(control), label_values(question)
            concern = _Concern(near, question.control.aggregation, labels, decided.tasks())
            for task in decided.tasks():
                if (at := task.place) not in left:
                    left[at] = at not in there and tasks.add(task, way, concern, below)
                    tasks.tasks += 1
                    tasks.labels += not left[at]
                    tasks.held += not left[at] and each.beside
                    clear = task.human is None or scheme.undo or way.vote(task.human) is not None
                    tasks.unclear += not clear
                    tasks.people += task.human is not None and clear
                if left[at] or at in hidden:
                    tasks.rounds.add(task.round_id)
        counted[control] = tasks
    return counted


_LEAST_CHANCE: Final = 0.1
"""The least probability of a near label with which a task is concerned."""


class _Concern:
    """Which tasks of a question may be concerned by new labels, which are ``near`` some of those before.

    By its ``tasks`` models are judged: how often they say what came out.
    """

    def __init__(
        self,
        near: Collection[str],
        aggregation: Aggregation,
        options: Sequence[str],
        tasks: Iterable[DecidedTask],
    ) -> None:
        self._near, self._options = frozenset(near), options
        self._closed = aggregation == LABEL_VOTE
        self._others = Relabelling(aggregation, dict.fromkeys(near), options, self._near)
        self._right = _accuracies(tasks) if near and self._closed else {}

    def __call__(self, task: DecidedTask) -> bool:
        """Whether a task is concerned. What people have said of it decides, unless it is blind."""
        if task.deciding is not None:
            return self.names(task.deciding)
        if self.names(task.label):
            return True
        votes = {arm: vote for arm, vote in task.votes.items() if vote is not None}
        named = any(map(self.names, votes.values()))
        if not named or not self._closed:
            return named
        known = {arm: vote for arm, vote in votes.items() if vote in self._options}
        chances = label_posterior(known, self._right, self._options)
        return sum(chances[label] for label in self._near if label in chances) >= _LEAST_CHANCE

    def names(self, vote: str) -> bool:
        """Whether a label, or an answer, names a label that is near."""
        return self._others.vote_if_valid(vote) is None


def _accuracies(tasks: Iterable[DecidedTask]) -> Mapping[str, float]:
    """Arm → the share of its votes that are the label that came out, with one right and one wrong vote."""
    votes, right = Counter[str](), Counter[str]()
    for task in tasks:
        for arm, vote in task.votes.items():
            votes[arm] += vote is not None
            right[arm] += vote == task.label
    return {arm: (right[arm] + 1.0) / (number + 2.0) for arm, number in votes.items()}
