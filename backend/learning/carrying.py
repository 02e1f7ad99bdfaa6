"""A question's rounds carried over to another label scheme: mapped, and not asked about again.

Nothing is changed that was stored before: rounds of the new scheme are made of the old ones, teach its state
with mapped votes, and name the round that they were made of. So the old scheme can come back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from backend.learning.teaching import (
    NewRound,
    confirmation,
    contribution_of,
    correct_rewards,
    human_label,
    insert_rounds,
    teacher,
)
from backend.ledger import events, human_annotations, rounds
from backend.ledger.database.statements import portions
from backend.ledger.epochs import CarriedRounds, CarryProgress, copy_votes, votes_of
from backend.ledger.events import Event, NewEvent, ProjectEvents, StateKey, StateRecords
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.projects import Scheme, Schemes
from backend.ledger.rounds import QuestionRounds, Round
from backend.settings import Settings
from camvo.joint.places import place_patterns
from camvo.state.contribution import Contribution
from camvo.state.exploration import ExplorationRound, VotePattern, named_labels
from camvo.state.state import State
from camvo.votes.labels import OrderedVote, has_vote_model
from camvo.votes.registry import describe_aggregation
from camvo.votes.relabelling import Relabelling

_PORTION: Final = 50
"""Events or rounds that one transaction carries: bounds how long other writers wait."""

_TASKS: Final = 20
"""Tasks that one transaction learns from again."""

_Transaction = Callable[[Connection], Any]
"""A function to call in a write transaction; it may be called again if the transaction failed."""

Transactions = Generator[_Transaction, Any, None]
"""Transactions to run one after the other. Each is sent what the one before returned."""


def run_each(transactions: Transactions, run: Callable[[_Transaction], Any]) -> None:
    """Run transactions in this thread."""
    result = None
    with suppress(StopIteration):
        while True:
            result = run(transactions.send(result))


def corrections(project: str, tasks: Sequence[int], settings: Settings, now: float) -> Transactions:
    """The transactions that learn again what people say about tasks; what is learnt already stays."""

    def correct(some: Sequence[int], connection: Connection) -> None:
        for task in some:
            correct_rewards(connection, project, task, settings, now)

    for some in portions(tasks, _TASKS):
        yield partial(correct, some)


_MOST_PRIOR: Final = 500
"""The latest rounds under earlier instructions that say what models are worth under new ones."""


def carry_prior(connection: Connection, project: str, scheme: Scheme, source: str) -> int:
    """Let a state begin with what the latest votes under earlier instructions say of the models.

    What comes out under the new instructions adds to it, and the tests of drift restart a model that has
    become another. Texts and human labels are left out: whoever deletes or withdraws them must find them.
    """
    control, epoch, ledger = scheme.control, scheme.epoch, ProjectEvents(connection, project)
    ledger.lock()
    known = StateRecords(connection, StateKey(project, control, epoch)).base() is not None
    if known or ledger.after(0, control=control, epoch=epoch, limit=1):
        return 0
    found = ledger.latest_rounds(control, source, _MOST_PRIOR)
    old: dict[int, Round] = {}
    for some in portions(found, _PORTION):
        old |= rounds.find_by_id(connection, [event.round_id for event in some if event.round_id is not None])
    new = [
        NewEvent(control=control, epoch=epoch, kind="prior", contribution=lesson.pack(), round_id=None)
        for event in found
        if event.round_id in old and (lesson := _prior(old[event.round_id], event)) is not None
    ]
    if new:
        ledger.append(new, scheme.created_at)
    return len(new)


def _prior(round_: Round, first: Event) -> Contribution | None:
    """What the votes of a round say of the models, whatever people said and whatever was planned."""
    if round_.pruned:
        return None
    before = Contribution.unpack(first.contribution)
    explored = before.exploration
    return replace(
        contribution_of(round_, round_.label, "vote"),
        exploration=explored and replace(explored, right=None, promised=None),
        compared=before.compared,
        histories={},
        restarts=0,
        versions=before.versions,
        taught=None,
    )


@dataclass(frozen=True, slots=True)
class _Portion:
    """What one transaction has carried.

    Attributes:
        rounds: how many rounds it has made.
        left: how many it left, because their label is dropped.
    """

    rounds: int
    left: int


@dataclass(slots=True)
class Carrying:
    """Carries the rounds of one question over. Safe to repeat: what is there already stays.

    Attributes:
        project: the project's key.
        scheme: the new scheme; its ``source`` is the epoch whose rounds are carried.
        relabelling: how votes are written in it.
        settings: the project's settings.
        now: unix seconds.
        originals: annotation → what it says, of those whose labels become one.
        everyone: whether every annotated task is learnt again at the end, because the scheme has rounds that
            were made before the latest annotations.
        again: the rounds that are left although their label stays, so that their tasks are asked about again.
        beside: what carries the question's rounds under earlier instructions over before.
        rounds: how many rounds were carried so far.
        left: how many were not, because their label is dropped or their task is asked about again.
    """

    project: str
    scheme: Scheme
    relabelling: Relabelling
    settings: Settings
    now: float
    originals: Mapping[int, str] = field(default_factory=dict)
    everyone: bool = False
    again: Set[int] = frozenset()
    beside: Sequence[Carrying] = ()
    rounds: int = 0
    left: int = 0

    def transactions(self) -> Transactions:
        """What to do, one write transaction after the other, until the scheme is the question's."""
        tasks = set[int]()
        for each in (*self.beside, self):
            tasks.update((yield from each._steps(self.scheme.epoch)))
        yield from corrections(self.project, sorted(tasks), self.settings, self.now)

    def _steps(self, present: str) -> Generator[_Transaction, Any, Sequence[int]]:
        """Carry the rounds, and return the tasks that are to be learnt from again."""
        yield self._begin
        for step in (self._carry_events, self._carry_others):
            while (portion := (yield step)) is not None:
                self.rounds += portion.rounds
                self.left += portion.left
        tasks: Sequence[int] = yield partial(self._finish, present)
        return tasks

    @property
    def _source(self) -> str:
        return self.scheme.source or ""

    def _carried(self, connection: Connection) -> CarriedRounds:
        return CarriedRounds(connection, self.project, self.scheme.control, self._source, self.scheme.epoch)

    def _begin(self, connection: Connection) -> None:
        """Carry the sum of the events that were pruned, unless that is done."""
        ledger = ProjectEvents(connection, self.project)
        ledger.lock()
        control, epoch, carried_rounds = self.scheme.control, self.scheme.epoch, self._carried(connection)
        if carried_rounds.progress() is not None:
            return
        later = ledger.after(0, control=control, epoch=epoch, limit=1)
        fresh = not later and StateRecords(connection, StateKey(self.project, control, epoch)).base() is None
        carried_rounds.keep(CarryProgress(fresh))
        base = StateRecords(connection, StateKey(self.project, control, self._source)).base()
        if fresh and base is not None:
            state = State.restore(base.state).relabelled(self.relabelling.vote).snapshot()
            base = replace(base, epoch=epoch, state=state, digest=events.digest_of(state))
            events.replace_base(connection, base, None)

    def _carry_events(self, connection: Connection) -> _Portion | None:
        """Carry the next events, in their order, with the rounds that they are of; ``None`` without more."""
        ledger = ProjectEvents(connection, self.project)
        ledger.lock()
        if (progress := self._carried(connection).progress()) is None:
            return None  # another process was faster
        found = ledger.after(
            progress.sequence, control=self.scheme.control, epoch=self._source, limit=_PORTION
        )
        if not found:
            return None
        old = rounds.find_by_id(connection, {event.round_id for event in found if event.round_id is not None})
        firsts = {event.round_id: event for event in found if event.kind == "round"}
        begun = [round_ for number, round_ in old.items() if number in firsts]
        new, left = self._new_rounds(connection, begun)
        votes = votes_of(connection, [number for number, _ in new])
        lessons = [self._lesson(round_, firsts[number], votes[number]) for number, round_ in new]
        stored = insert_rounds(connection, lessons)
        made = {number: event for (number, _), event in zip(new, stored, strict=True)}
        append: list[NewEvent] = []
        for event in found:
            if event.round_id not in old:  # of a round that is deleted by now, or a restart
                append += [self._event(event)] if progress.fresh else []
            elif event.kind == "round" and event.round_id in made:
                append.append(made[event.round_id])  # what revised the round is in it
        self._append(connection, append)
        self._carried(connection).keep(replace(progress, sequence=found[-1].sequence))
        return _Portion(len(new), left)

    def _append(self, connection: Connection, new: Sequence[NewEvent]) -> None:
        if new:
            ProjectEvents(connection, self.project).append(new, self.now)

    def _event(self, event: Event, of: tuple[int, Round] | None = None) -> NewEvent:
        """The event of the new scheme, of the same round or of the one that was made of it."""
        lesson = Contribution.unpack(event.contribution).relabelled(self.relabelling.vote)
        return NewEvent(
            control=self.scheme.control,
            epoch=self.scheme.epoch,
            kind=event.kind,
            contribution=lesson.pack() if of is None else lesson.pack(of[1].text),
            round_id=event.round_id if of is None else of[0],
            context_of_round=of is not None,
        )

    def _carry_others(self, connection: Connection) -> _Portion | None:
        """Carry the next rounds whose first events were pruned, with later ones; ``None`` without more."""
        ProjectEvents(connection, self.project).lock()
        if (progress := self._carried(connection).progress()) is None:
            return None
        control = self.scheme.control
        found = QuestionRounds(connection, self.project, control, self._source).after(
            progress.number, _PORTION
        )
        if not found:
            return None
        whole = [round_.id for round_ in found if not round_.pruned]
        later = ProjectEvents(connection, self.project).of_rounds(control, self._source, whole)
        learnt = {event.round_id for event in later if event.kind == "round"}
        new, left = self._new_rounds(connection, [round_ for round_ in found if round_.id not in learnt])
        ids = rounds.insert_each(connection, [round_ for _, round_ in new])
        copy_votes(connection, dict(zip([number for number, _ in new], ids, strict=True)))
        if progress.fresh:
            made = {old: (number, round_) for (old, round_), number in zip(new, ids, strict=True)}
            of_made = [(event, made[event.round_id]) for event in later if event.round_id in made]
            self._append(connection, [self._event(event, of) for event, of in of_made])
        self._carried(connection).keep(replace(progress, number=found[-1].id))
        return _Portion(len(new), left)

    def _new_rounds(
        self, connection: Connection, old: Sequence[Round]
    ) -> tuple[list[tuple[int, Round]], int]:
        """The rounds of the new scheme that are not there yet, each with the id of the old one.

        And how many there are not, because their label is dropped.
        """
        keys = {round_.id: replace(round_.key, epoch=self.scheme.epoch) for round_ in old}
        known = rounds.find_by_key(connection, list(keys.values()))
        people = human_annotations.of_tasks(connection, [(self.project, round_.key.task) for round_ in old])
        new: list[tuple[int, Round]] = []
        left = 0
        for round_ in old:
            if keys[round_.id] in known:
                continue
            label = None if round_.id in self.again else self.relabelling.vote(round_.label)
            if label is None:
                left += 1
                continue
            said = [annotation.under(self.scheme) for annotation in people[self.project, round_.key.task]]
            new.append((round_.id, self._new_round(connection, round_, label, said)))
        return new, left

    def _new_round(
        self, connection: Connection, old: Round, label: str, people: Sequence[Annotation]
    ) -> Round:
        vote = self.relabelling.vote
        plan: dict[str, Any] = {**old.plan, "aggregation": describe_aggregation(self.relabelling.aggregation)}
        if self.relabelling.options:
            plan["labels"] = list(self.relabelling.options)
        if "studied" in plan:
            plan["studied"] = [each and vote(each) for each in plan["studied"]]
        if "likely" in plan:
            plan["likely"] = self._likely(plan["likely"])
        key = replace(old.key, epoch=self.scheme.epoch)
        human = human_label(connection, key, plan, people)
        taught, by = teacher(label, human, self.settings, blind=old.audit)
        return replace(
            old,
            id=0,
            key=key,
            plan=plan,
            votes={arm: each and vote(each) for arm, each in old.votes.items()},
            label=label,
            human=human,
            confirmed=confirmation(label, human, plan),
            taught=taught,
            taught_by=by,
            cost_usd=0.0,
            bounded_usd=0.0,
            reused=0.0,
            reused_usd=0.0,
            carried_from=old.id,
        )

    def _likely(self, scores: Mapping[str, float]) -> dict[str, float]:
        """The scores of labels with a recall; those of labels that become one add up."""
        found: dict[str, float] = {}
        for label, score in scores.items():
            if (new := self.relabelling.labels.get(label, label)) is not None:
                found[new] = found.get(new, 0.0) + score
        return found

    def _lesson(self, round_: Round, first: Event, votes: Sequence[dict[str, Any]]) -> NewRound:
        """The round with all that it teaches by now."""
        before = Contribution.unpack(first.contribution)
        mapped = before.relabelled(self.relabelling.vote)
        lesson = replace(
            contribution_of(round_, round_.taught, round_.taught_by),
            exploration=mapped.exploration and self._explored(round_, mapped.exploration),
            compared=mapped.compared,
            restarts=before.restarts,
            versions=before.versions,
        )
        return NewRound(
            round_,
            lesson,
            examples={row["model"]: row["examples"] for row in votes if row["examples"] is not None},
            failures={
                row["model"]: row["failure"] for row in votes if row["failure"] or row["voted"] is None
            },
        )

    def _explored(self, round_: Round, explored: ExplorationRound) -> ExplorationRound:
        """What an exploration round shows. Labels that became one say nothing of stops that were planned."""
        if self.relabelling.is_exact:
            return explored
        vote, options = self.relabelling.aggregation, self.relabelling.options
        ordered = isinstance(vote, OrderedVote)
        labels = named_labels(options, ordered=ordered) if has_vote_model(vote) else ()
        pattern = explored.pattern
        votes = {arm: round_.votes.get(arm) for arm in pattern.asked}
        places = place_patterns(pattern.arms, votes) if explored.places else ()
        return ExplorationRound(
            VotePattern.of(pattern.arms, votes, everyone=pattern.everyone, labels=labels), None, places=places
        )

    def _finish(self, present: str, connection: Connection) -> Sequence[int]:
        """Carry what belongs to the rounds; return the tasks that are to be learnt from again."""
        ProjectEvents(connection, self.project).lock()
        schemes, of_question = Schemes(connection, self.project), self._carried(connection)
        if schemes.epochs().get(self.scheme.control) == present:
            of_question.end()
            return ()  # another process was faster
        for step in (self._carry_events, self._carry_others):
            while step(connection) is not None:  # what came while the rest was carried
                pass
        asked_further = of_question.copy_beside(self.relabelling.vote)
        of_question.end()
        if not self.scheme.beside or not self._is_beside(schemes):
            schemes.append(self.scheme)
        if self.originals:
            Annotations(connection, self.project).keep_originals(self.scheme.control, self.originals)
        if self.everyone:
            return Annotations(connection, self.project).tasks()
        made = QuestionRounds(connection, self.project, self.scheme.control, self.scheme.epoch)
        return sorted({*asked_further, *made.edited_tasks()})

    def _is_beside(self, schemes: Schemes) -> bool:
        """Whether the scheme, of earlier instructions, is there since the question's latest one."""
        latest = schemes.latest()[self.scheme.control].id
        place = (self.scheme.control, self.scheme.epoch)
        return any(each.id > latest and (each.control, each.epoch) == place for each in schemes.all())
