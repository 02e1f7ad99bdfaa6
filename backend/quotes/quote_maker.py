"""Makes the quote of a job: tasks are counted as they are read, and none is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from backend.annotation.job import Job, JobQuestion
from backend.annotation.job_questions import ALL, NONE_HELD, HeldLabels
from backend.errors import TaskError
from backend.ledger import Ledger, money, recounts, rounds
from backend.ledger.human_annotations import Annotations
from backend.ledger.money import from_picodollars
from backend.ledger.rounds import QuestionRounds, Round, RoundKey
from backend.questions.question import hidden_questions, policy_for
from backend.quotes.quote import (
    NONE_TO_COME,
    ComparedPacks,
    JobPrices,
    JobTally,
    MixQuote,
    ModelQuote,
    Quote,
    QuoteEvidence,
    Range,
    TargetQuote,
    label_price,
)
from backend.runtime import AnnotationProcess
from backend.settings import Settings
from backend.settings.policies import policy_in_force, policy_of
from camvo.numerics.small import clopper_pearson
from camvo.policies.joint import FIRST, Joint
from camvo.policies.policy import Policy
from camvo.quotes import FEWEST, Forecast, KnownVotes, LabelledVotes, Mix, documented_share, forecast, mixes
from camvo.state.exploration import UNASKED
from camvo.student import STUDENT
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.spans import SpanVote

_KNOWN_ROUNDS_MOST = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class _KnownRounds:
    """Rounds that asked everyone about one question, with the positions of human labels, −1 for none."""

    votes: KnownVotes
    human: NDArray[np.int64]


def _known_rounds(ledger: Ledger, question: JobQuestion, prices: Mapping[str, float]) -> _KnownRounds:
    """Read the latest rounds on a question that asked all arms with a price by a draw.

    Votes of two arms alone do not show which of them is right more often, so a replay of them trusts both
    alike. A policy that has seen them beside a third arm, since removed, knows better: there are none then.
    """
    arms, names = tuple(sorted(prices)), tuple(sorted(question.options))
    place = {label: number for number, label in enumerate(names)}
    with ledger.read() as connection:
        found = _rounds_on(connection, question).everyone_votes(set(arms), _KNOWN_ROUNDS_MOST)
    if len(arms) < 3 and any(votes.keys() - {*arms, STUDENT} for votes, _ in found):
        found = []
    rows = [[place.get(votes[arm] or "", -1) for arm in arms] for votes, _ in found]
    return _KnownRounds(
        KnownVotes(
            names,
            arms,
            np.array([prices[arm] for arm in arms]),
            np.array(rows, dtype=np.int64).reshape(-1, len(arms)),
        ),
        np.array([place.get(human or "", -1) for _, human in found], dtype=np.int64),
    )


_MOST: Final = 5_000
"""The most labelled tasks that are read."""


def _in_dollars(  # noqa: PLR0917 - a mix, a job, and prices
    mix: Mix, policy: Joint, tasks: int, everyone_usd: float, label_usd: float, target: float
) -> MixQuote:
    models = mix.models * everyone_usd
    labels, sure = _whole(mix.humans * tasks), _whole(mix.humans_sure * tasks)
    setting = (
        f"worth: {mix.times * policy.worth_of(1.0):g}"
        if policy.worth_usd is None
        else f"worth_usd: {mix.times * policy.worth_of(1.0):.3g}"
    )
    return MixQuote(
        models_usd=models,
        labels=labels,
        labels_sure=sure,
        label_usd=label_usd,
        usd=models + labels * label_usd,
        usd_sure=models + sure * label_usd,
        people_alone_usd=_whole(target * tasks) * label_usd,
        setting=None if mix.times == 1.0 else setting,
    )


def _rounds_on(connection: Connection, question: JobQuestion) -> QuestionRounds:
    return QuestionRounds(connection, question.key.project, question.key.control, question.key.epoch)


def _read_labelled(
    connection: Connection, question: JobQuestion, known: _KnownRounds, model_of: Mapping[str, str]
) -> LabelledVotes:
    """Read the votes on tasks that people labelled without seeing what models said.

    These are the blind tasks, and those whose form was not prefilled with a prediction.
    """
    place = {label: number for number, label in enumerate(known.votes.labels)}
    shown = Annotations(connection, question.key.project).prefilled_tasks()
    rows, human = [], []
    for task, votes, label, blind in _rounds_on(connection, question).labelled_votes(_MOST):
        if label not in place or (task in shown and not blind):
            continue
        # A packed arm and its model are one voter here, whichever of the two was asked.
        cast = {arm: votes.get(arm, votes.get(model_of[arm], "")) for arm in known.votes.arms}
        asked = {arm for arm in known.votes.arms if arm in votes or model_of[arm] in votes}
        if not asked:
            continue
        rows.append([place.get(cast[arm] or "", -1) if arm in asked else UNASKED for arm in known.votes.arms])
        human.append(place[label])
    return LabelledVotes(
        np.array(rows, dtype=np.int64).reshape(-1, len(known.votes.arms)), np.array(human, dtype=np.int64)
    )


def _whole(number: float) -> int:
    return int(np.ceil(number - 1e-9))


_SEED: Final = 16
"""A fixed seed, so that the same rounds give the same quote."""


@dataclass(frozen=True, slots=True)
class _PolicyShare:
    """The policy's cost in prices of asking everyone; ``asked`` has the share of the tasks by model."""

    range: Range
    evidence: QuoteEvidence
    asked: Mapping[str, float] = field(default_factory=dict)

    def of_model(self, model: str) -> Range | None:
        """The share of the tasks about which a model is asked; ``None`` if it is unknown."""
        if (asked := self.asked.get(model)) is None:
            return None
        middle = self.range.middle or 1.0
        low, high = (min(asked * end / middle, 1.0) for end in (self.range.low, self.range.high))
        return Range(low, high, asked)


@dataclass(frozen=True, slots=True)
class _PlannedTasks:
    """The tasks to come, ``to_come`` of them, and the policies that decide them.

    ``prices`` has the mean price of asking each arm about a task, in $, and ``model_of`` the arm's model.
    """

    ledger: Ledger
    project: str
    settings: Settings
    questions: Sequence[JobQuestion]
    prices: Mapping[str, float]
    model_of: Mapping[str, str]
    to_come: int

    @property
    def _policies(self) -> list[tuple[Policy, list[JobQuestion]]]:
        """The policies in force, each with its questions."""
        config = [question.config for question in self.questions]
        found: dict[Policy, list[JobQuestion]] = {}
        for question in self.questions:
            policy = policy_for(self.settings.policy, config, [question.name])
            found.setdefault(policy, []).append(question)
        return list(found.items())

    @property
    def policy_name(self) -> str:
        """The name of the policy that will be in force; both names if some questions get another one."""
        names = [self._name_of(policy) for policy, _ in self._policies]
        return " and ".join(names) or policy_in_force(self.settings.policy)[0]

    def _name_of(self, policy: Policy) -> str:
        return self.settings.policy.name or ("joint" if isinstance(policy, Joint) else "camvo")

    @property
    def has_student(self) -> bool:
        """Whether a student will vote on any question."""
        return any(self._student_votes(policy, asked) for policy, asked in self._policies)

    def _student_votes(self, policy: Policy, questions: Sequence[JobQuestion]) -> bool:
        """Whether a student will vote under a policy on any of its questions."""
        return self.settings.has_student(policy) and any(each.aggregation == LABEL_VOTE for each in questions)

    def share(self, progress: Callable[[int], object]) -> _PolicyShare:
        """How much the policy will spend; of several policies, between the extremes."""
        if self.settings.policy.name == "single":
            only = {arm: float(model == self.settings.policy.model) for arm, model in self.model_of.items()}
            total = sum(self.prices.values()) or 1.0
            share = sum(only[arm] * price for arm, price in self.prices.items()) / total
            return _PolicyShare(Range(share, share, share), QuoteEvidence(0), self._by_model(only))
        divided = self._policies or [(policy_of(self.settings.policy), [])]
        if len(divided) == 1:
            [(policy, asked)] = divided
            return self._share_of(policy, asked, progress)
        shares = [self._documented_share(policy, asked) for policy, asked in divided]
        low, high = min(one.range.low for one in shares), max(one.range.high for one in shares)
        return _PolicyShare(Range(low, high), QuoteEvidence(0))

    def _share_of(
        self, policy: Policy, questions: Sequence[JobQuestion], progress: Callable[[int], object]
    ) -> _PolicyShare:
        """How much one policy will spend: by the project's own rounds if they can be replayed."""
        documented = self._documented_share(policy, questions)
        if isinstance(policy, Joint) and documented.evidence.replayable and self.to_come:
            known = [_known_rounds(self.ledger, question, self.prices) for question in questions]
            if known and min(len(rounds.human) for rounds in known) >= FIRST:
                found = _forecast(policy.worth_in_askings(self.prices), known, self.to_come, progress)
                return replace(found, asked=self._by_model(found.asked))
        return documented

    def _by_model(self, of_arms: Mapping[str, float]) -> dict[str, float]:
        return {self.model_of[arm]: share for arm, share in of_arms.items()}

    def _documented_share(self, policy: Policy, questions: Sequence[JobQuestion]) -> _PolicyShare:
        """How much a policy spends on other data."""
        # forecasts know no agreement, no labels that are not worth the same and no spans; these may cost more
        agreement = isinstance(policy, Joint) and (
            policy.agreement is not None
            or any(policy.losses(question.options) for question in questions)
            or any(isinstance(question.aggregation, SpanVote) for question in questions)
        )
        labels = all(question.aggregation == LABEL_VOTE for question in questions)
        prices = [*self.prices.values()]
        replayable = isinstance(policy, Joint) and labels and not agreement and sum(prices) > 0.0
        name = self._name_of(policy)
        asked = min(self.settings.policy.k_min, len(prices)) if name in {"camvo", "ccamvo"} else 1
        student = self._student_votes(policy, questions)
        low, high = documented_share(name, self.to_come, prices, asked, student=student, agreement=agreement)
        evidence = QuoteEvidence(0, replayable=replayable)
        return _PolicyShare(Range(low, high, low if low == high else None), evidence)

    def target(self, target: float, tasks: int, everyone_usd: float) -> TargetQuote:
        """What reaches a target, for a job with one question under the policy ``joint``.

        Args:
            target: the share of all labels that is to be right.
            tasks: all tasks of the job that can be asked about.
            everyone_usd: what asking every model about those to come costs.
        """
        questions = self.questions
        policy = next((each for each, _ in self._policies), policy_of(self.settings.policy))
        if (
            len(questions) > 1
            or not isinstance(policy, Joint)
            or policy.agreement is not None
            or any(policy.losses(question.options) for question in questions)
        ):
            why = (
                "it is found for one question about labels, under the policy joint without an agreement and"
                " with one worth for all labels"
            )
            return TargetQuote(target, None, unknown=why)
        if not questions:
            return TargetQuote(target, None, unknown=NONE_TO_COME)
        known = _known_rounds(self.ledger, questions[0], self.prices)
        with self.ledger.read() as connection:
            label_usd = label_price(connection, self.project, self.settings.humans)
            labelled = _read_labelled(connection, questions[0], known, self.model_of)
        if label_usd is None:
            return TargetQuote(target, None, unknown="set humans: {price: 0.12} in camvo.yaml")
        count = len(labelled.human)
        if (missing := self._missing(known, count)) is not None:
            return TargetQuote(target, None, count, missing)
        arms = dict(zip(known.votes.arms, known.votes.prices.tolist(), strict=True))
        worth, rng = policy.worth_in_askings(arms), np.random.default_rng(_SEED)
        found = [
            _in_dollars(mix, policy, tasks, everyone_usd, label_usd, target)
            for mix in mixes(known.votes, labelled, self.to_come, worth, target, rng)
        ]
        return TargetQuote(target, min(found, key=lambda mix: (mix.usd_sure, mix.usd)), count)

    def _missing(self, known: _KnownRounds, labelled: int) -> str | None:
        """What is missing to know a mix; ``None`` if nothing is."""
        if not self.to_come:
            return NONE_TO_COME
        if (everyone := len(known.votes.rows)) < FIRST:
            return f"{everyone} of at least {FIRST} tasks have asked everyone; --pilot 200 asks about more"
        if labelled < FEWEST:
            return (
                f"{labelled} of at least {FEWEST} tasks have a label of people who did not see the models';"
                " keep tasks blind (camvo label --blind 300, or audit in camvo.yaml) and have them labelled"
            )
        return None


def _forecast(
    worth: float, known: Sequence[_KnownRounds], to_come: int, progress: Callable[[int], object]
) -> _PolicyShare:
    """The forecasts of all questions as one.

    One call answers all questions, so costs lie between those of the most expensive question and their sum.
    """
    rng = np.random.default_rng(_SEED)
    forecasts = [forecast(rounds.votes, to_come, worth, rng, progress=progress) for rounds in known]
    asked: dict[str, float] = {}
    for one in forecasts:
        asked = {arm: max(asked.get(arm, 0.0), rate) for arm, rate in one.asked.items()}
    together = Range(
        max(one.low for one in forecasts),
        min(sum(one.high for one in forecasts), 1.0),
        max(one.likely for one in forecasts),
    )
    return _PolicyShare(together, _evidence(forecasts[0], known[0]), asked)


def _evidence(one: Forecast, known: _KnownRounds) -> QuoteEvidence:
    """What the rounds of the first question say of labels."""
    labelled = np.flatnonzero(known.human >= 0)
    rounds = len(known.human)
    if not len(labelled) or not one.fits:
        return QuoteEvidence(rounds, one.agreement)
    right = np.mean([_right(one, number, known, labelled) for number in range(len(one.fits))])
    low, high = clopper_pearson(float(right) * len(labelled), len(labelled))
    return QuoteEvidence(rounds, one.agreement, len(labelled), Range(low, high, float(right)))


def _right(one: Forecast, number: int, known: _KnownRounds, labelled: NDArray[np.int64]) -> float:
    """The share of the labels that are right, by the plan at the end of one replay."""
    rows, fit = known.votes.canonical[labelled], one.fits[number]
    asked = known.votes.planned(fit, rows, one.worth)
    votes = known.votes.rows[labelled]
    leaders, _ = fit.leaders(np.where(asked, rows, UNASKED))
    # The label of a number is the vote of any arm with that number.
    right = 0
    for place, row, leader, cast in zip(labelled.tolist(), rows, leaders.tolist(), votes, strict=True):
        said = cast[row == leader]
        right += bool(leader >= 0 and len(said) and said[0] == known.human[place])
    return right / len(labelled)


class QuoteMaker:
    """Counts the tasks of one project.

    Attributes:
        tally: what was counted so far.
        example: a counted task with as many open questions as any; ``None`` before there is one.
        too_long: the number of the first counted task that is too long for a model; ``None`` without any.
    """

    def __init__(
        self,
        process: AnnotationProcess,
        settings: Settings,
        project: str,
        batched: Set[str] = frozenset(),
        tally: JobTally | None = None,
    ) -> None:
        self._process, self._settings, self._project, self._batched = process, settings, project, batched
        self._questions: Sequence[JobQuestion] = ()
        self.tally = tally or JobTally()
        self.example: Job | None = None
        self.too_long: int | None = None

    def count(self, jobs: Sequence[Job], below: float = ALL) -> None:
        """Count some tasks; they are looked up in the ledger together.

        Args:
            jobs: the tasks.
            below: those with labels of earlier instructions keep them unless a score is lower; 1 for none.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        asked = [self._asked(job) for job in jobs]
        with self._process.ledger.read() as connection:
            held = self._earlier(connection, jobs, below)
            keys = [question.key for questions in asked for question in questions]
            keys += [key for questions in asked for key in held.keys(questions)]
            decided = recounts.with_latest(connection, rounds.find_by_key(connection, keys))
        for job, questions in zip(jobs, asked, strict=True):
            self.tally.listed += 1
            self.tally.unreadable += not questions
            earlier = held.of_task(questions, decided)
            known = {**decided, **earlier} if held.keeps(earlier) else decided
            if missing := _to_come(questions, known):
                self.tally.add(self._process.pool, job, missing)
                if self.tally.too_long and self.too_long is None:
                    self.too_long = job.task
                self._note(job, missing)

    def _earlier(self, connection: Connection, jobs: Sequence[Job], below: float) -> HeldLabels:
        if not jobs or below >= ALL:
            return NONE_HELD
        asked = self._process.questions.asked(jobs[0])
        return HeldLabels.of(connection, self._project, asked, below)

    def ask_as_of(self, job: Job) -> None:
        """Take the questions from a task that was counted elsewhere."""
        self._note(job, self._asked(job))

    def _asked(self, job: Job) -> list[JobQuestion]:
        try:
            return self._process.questions.with_texts(job)
        except TaskError:
            return []

    def _note(self, job: Job, questions: Sequence[JobQuestion]) -> None:
        if len(questions) > len(self._questions):
            self._questions, self.example = questions, job

    def quote(
        self, progress: Callable[[int], object] = lambda replays: None, target: float | None = None
    ) -> Quote:
        """The quote of the tasks so far.

        Args:
            progress: called with 1 after each replay of the policy.
            target: the share of all labels that models and people are to get right together, in (0, 1);
                ``None`` if nobody wants to know.
        """
        settings, tally = self._settings, self.tally
        with self._process.ledger.read() as connection:
            packs = ComparedPacks.of(connection, self._project, settings.models, self._questions)
        prices = JobPrices(tally, self._process.pool, settings.models, self._batched, packs)
        models, model_of = prices.quotes(), prices.arms()
        planned = _PlannedTasks(
            self._process.ledger,
            self._project,
            settings,
            self._questions,
            {arm: models[model].votes_usd.middle / max(tally.tasks, 1) for arm, model in model_of.items()},
            model_of,
            tally.tasks,
        )
        share = planned.share(progress)
        everyone = _total(model.usd for model in models.values())
        bill = self._bill(prices, models, share)
        with self._process.ledger.read() as connection:
            spent, of_job = (
                from_picodollars(money.balance(connection, self._project, scope).spent)
                for scope in (money.TOTAL, money.JOB)
            )
        return Quote(
            project=self._project,
            policy=planned.policy_name,
            tasks=tally.listed,
            to_come=tally.tasks,
            unreadable=tally.unreadable,
            models={name: replace(model, asked=share.asked.get(name)) for name, model in models.items()},
            everyone=everyone,
            bill=bill,
            hours=_hours(models, share),
            evidence=share.evidence,
            levers=prices.levers(share.asked, bill.middle),
            spent=spent,
            spent_by_job=of_job,
            target=None
            if target is None
            else planned.target(target, tally.listed - tally.unreadable, everyone.middle),
            student=planned.has_student,
            too_long=prices.long_tasks(),
        )

    def _bill(self, prices: JobPrices, models: Mapping[str, ModelQuote], share: _PolicyShare) -> Range:
        """What the policy costs: its share of all votes, and the comparisons of packed ones."""
        votes = share.range.times(_total(model.votes_usd for model in models.values()))
        bill = [votes]
        for model in self._settings.models:
            asked = share.of_model(model.name) or share.range
            low, likely, high = (
                prices.compared(model, models[model.name], part)
                for part in (asked.low, asked.middle, asked.high)
            )
            bill.append(Range(low.low, high.high, likely.middle))
        return reduce(Range.plus, bill)


def _total(ranges: Iterable[Range]) -> Range:
    """The sum of ranges."""
    listed = list(ranges)
    return Range(sum(one.low for one in listed), sum(one.high for one in listed))


def _hours(models: Mapping[str, ModelQuote], share: _PolicyShare) -> Range | None:
    """The hours of the slowest model; models with limits work in parallel."""
    low, likely, high = [], [], []
    for name, model in models.items():
        if model.hours is None:
            continue
        if (asked := share.of_model(name)) is None:
            low.append(model.hours * share.range.low)
            high.append(model.hours)
            continue
        low.append(model.hours * asked.low)
        likely.append(model.hours * asked.middle)
        high.append(model.hours * asked.high)
    if not low:
        return None
    return Range(max(low), max(high), max(likely) if likely else None)


def _to_come(questions: Sequence[JobQuestion], decided: Mapping[RoundKey, Round]) -> list[JobQuestion]:
    """The undecided questions of a task, without those that annotators do not see by the decided labels."""
    labels = {question.name: decided[question.key].label for question in questions if question.key in decided}
    hidden = hidden_questions([question.config for question in questions], labels)
    return [question for question in questions if question.name not in labels.keys() | hidden]
