"""One question asked about many tasks: the policy, its prices and its learned state in one object.

A policy works on several questions at once and holds no state, so its callers pass mappings by question and
keep the state themselves. :class:`Question` does both for the usual case of one question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from camvo.errors import InvalidParameterError
from camvo.policies.joint import Joint
from camvo.policies.policy import Observation, Plan, Policy
from camvo.state.contribution import Contribution, revision
from camvo.state.state import State
from camvo.votes.aggregation import Aggregation, Ballot, Decision
from camvo.votes.labels import LABEL_VOTE, OrderedVote

_KEY: Final = "question"
"""The key of the one question in the mappings that policies take and return."""

_NO_VOTE: Final = "pass None for a model that gave no usable answer"

_UNKNOWN: Final[Mapping[str, float]] = MappingProxyType({})


class ScoredLabel(NamedTuple):
    """A label and its score, the probability in [0, 1] that the label is right.

    For a number, a ranking, a subset or spans, ``label`` is the answer as text and ``score`` is its expected
    reward.

    >>> label, score = ScoredLabel("pos", 0.9)
    >>> label
    'pos'
    """

    label: str
    score: float


class Task:
    """One task of a :class:`camvo.Question`: ask models, add their votes, decide, learn.

    :meth:`camvo.Question.task` makes it. Pickle it together with its question, whose state learns from it.

    Attributes:
        plan: what the policy knew and decided before the first model was asked.

    >>> import camvo
    >>> question = camvo.Question(("neg", "pos"), prices={"small": 0.1, "large": 5.0}, dimension=2)
    >>> task = question.task([1.0, 0.0])
    >>> task.ask()
    ('small', 'large')
    >>> task.add({"small": "pos", "large": None})  # the large model failed
    >>> task.ask()
    ()
    >>> task.decide().label
    'pos'
    >>> task.learn()
    >>> question.state.rounds
    1
    >>> task.withdraw()
    >>> question.state.rounds
    0
    """

    def __init__(
        self, policy: Policy, plan: Plan, state: State, labels: Sequence[str], aggregation: Aggregation
    ) -> None:
        self.plan = plan
        self._policy = policy
        self._state = state
        self._labels = labels
        self._aggregation = aggregation
        self._votes: dict[str, dict[str, str]] = {}
        self._confidences: dict[str, dict[str, float]] = {}
        self._taught: Contribution | None = None
        self._wanted = policy.ask(plan, self._votes)

    @property
    def votes(self) -> dict[str, str | None]:
        """The votes so far: model → vote, ``None`` for a model that failed."""
        return {model: answers.get(_KEY) for model, answers in self._votes.items()}

    def ask(self) -> tuple[str, ...]:
        """Return the models to ask now; an empty tuple if the task can be decided.

        The result stays the same until :meth:`add` has received the votes of these models.
        """
        return self._wanted

    def add(self, votes: Mapping[str, str | None], *, confidences: Mapping[str, float] = _UNKNOWN) -> None:
        """Add the votes of models that :meth:`ask` returned, all at once or one after another.

        Args:
            votes: model → vote; ``None`` if the model failed or gave no usable answer.
            confidences: model → how sure it says it is of its vote, in [0, 1], for the models that say so.
                They need not be calibrated. Only votes for labels use them.

        Raises:
            InvalidParameterError: a model is unknown, was not asked or has voted already, the question does
                not allow a vote, or a confidence is outside [0, 1] or without a vote. Nothing is added then.
        """
        for model, vote in votes.items():
            self._check_voter(model)
            if vote is not None:
                self._check_answer(model, vote, fix=_NO_VOTE)
        for model, confidence in confidences.items():
            _check_confidence(model, confidence, votes.get(model))
        for model, vote in votes.items():
            self._votes[model] = {} if vote is None else {_KEY: vote}
        for model, confidence in confidences.items():
            self._confidences[model] = {_KEY: float(confidence)}
        self._wanted = tuple(model for model in self._wanted if model not in self._votes)
        if not self._wanted:
            self._wanted = self._policy.ask(self.plan, self._votes, confidences=self._confidences)

    def decide(self) -> ScoredLabel:
        """Return the label and its score.

        Raises:
            InvalidParameterError: votes are missing, or every model failed.
        """
        decision = self.decision
        return ScoredLabel(decision.label, decision.score)

    @property
    def decision(self) -> Decision:
        """The policy's whole decision, with the probability of every label.

        Raises:
            InvalidParameterError: as for :meth:`decide`.
        """
        if self._wanted:
            raise InvalidParameterError(
                f"votes of {', '.join(self._wanted)} are missing",
                fix="pass them to add(), with None for a model that failed, until ask() returns ()",
            )
        decision = self._policy.decide(self.plan, self._votes, confidences=self._confidences).get(_KEY)
        if decision is None:
            raise InvalidParameterError(
                "every model failed, so there is no vote to decide by",
                fix="make a new task with question.task(embedding) and ask again, or skip this one",
            )
        return decision

    def learn(self, *, human: str | None = None) -> None:
        """Learn from the task: from the label decided, or from a person's label if one is given.

        A person's label replaces what was learnt from the task before, however often the label changes.
        Calling ``learn()`` again, or after ``learn(human=...)``, changes nothing.

        Args:
            human: the label that a person gave, in the form of a vote.

        Raises:
            InvalidParameterError: as for :meth:`decide`, or the question does not allow ``human``.
        """
        decision = self.decision
        if human is None and self._taught is not None:
            return
        if human is not None:
            self._check_answer("human", human)
        lesson = self._policy.contribution(
            self.plan,
            _KEY,
            self._votes,
            decision.label if human is None else human,
            human=human is not None,
            confidences=self._confidences,
        )
        change = lesson if self._taught is None else revision(self._taught, lesson)
        self._state.add(change)
        self._state.restart_if_due()
        self._taught = lesson

    def withdraw(self) -> None:
        """Take back everything that was learnt from the task.

        To take back a person's label alone, call ``learn()`` afterwards: it learns from the votes again.
        """
        if self._taught is None:
            return
        self._state.add(self._taught.withdrawal())
        self._taught = None

    def _check_voter(self, model: str) -> None:
        if model in self._wanted:
            return
        if model not in self.plan.arms:
            known = ", ".join(self.plan.arms)
            raise InvalidParameterError(f"unknown model {model!r}", fix=f"the question's models are {known}")
        if model in self._votes:
            raise InvalidParameterError(f"{model!r} has voted already", fix="add each model's vote once")
        raise InvalidParameterError(
            f"{model!r} was not asked", fix="add the votes of the models that ask() returned, and no others"
        )

    def _check_answer(self, voter: str, answer: str, fix: str | None = None) -> None:
        """Refuse an answer that the question does not allow; ``voter`` is a model's name or "human"."""
        if not isinstance(answer, str):
            kind = type(answer).__name__
            raise InvalidParameterError(f"the vote of {voter!r} must be a string, got {kind}", fix=fix)
        ballot = Ballot({voter: answer}, {voter: 1.0}, {voter: 1.0}, {voter: 0.5})
        try:
            self._aggregation.aggregate(ballot, self._labels)
        except InvalidParameterError as error:
            whose = None if repr(voter) in error.message else f"the vote of {voter!r}"
            raise InvalidParameterError(error.message, where=whose, fix=fix) from error


def _check_confidence(model: str, confidence: float, vote: str | None) -> None:
    if vote is None:
        raise InvalidParameterError(
            f"a confidence of {model!r} without a vote", fix="pass it with the model's vote"
        )
    if not isinstance(confidence, int | float | np.number) or not 0.0 <= confidence <= 1.0:
        raise InvalidParameterError(f"the confidence of {model!r} must be in [0, 1], got {confidence!r}")


class Question:
    """One question, the models that can answer it and what has been learned about them.

    To add or remove a model or to change a price, make a new question with the same ``state``. A question
    is not safe to use from several threads at once.

    Args:
        labels: the label set, at least one label and no label twice; the items of a ranking; empty for a
            number or a free text.
        prices: model → expected price of asking it about one task, finite and not negative, in any one unit.
        dimension: d, the length of every embedding. It may be left out if ``state`` is given.
        policy: decides which models to ask and how their votes count; :class:`camvo.Joint` by default.
        aggregation: how votes become one answer; a weighted vote over ``labels`` by default.
        lambda_l: λ_L > 0, the ridge strength of the linear model in a new state; 1 by default.
        state: the state to continue from, for example ``camvo.State.restore(snapshot)``. It is used in
            place, not copied.

    Attributes:
        labels: the label set.
        prices: model → price.
        policy: the policy.
        aggregation: the aggregation.
        state: what has been learned so far. ``state.snapshot()`` saves it.

    Raises:
        InvalidParameterError: an argument is out of its range, or does not fit ``state``.

    >>> import camvo
    >>> answers = {"small": "pos", "large": "pos"}
    >>> question = camvo.Question(("neg", "pos"), prices={"small": 0.1, "large": 5.0}, dimension=3)
    >>> task = question.task([0.6, 0.8, 0.0])
    >>> while models := task.ask():
    ...     task.add({model: answers[model] for model in models})
    >>> label, score = task.decide()
    >>> label, round(score, 2)
    ('pos', 0.9)
    >>> task.learn()
    >>> task.learn(human="neg")  # a person's label, later; it replaces what the votes taught
    >>> snapshot = question.state.snapshot()
    >>> again = camvo.Question(
    ...     ("neg", "pos"), prices={"small": 0.1, "large": 5.0}, state=camvo.State.restore(snapshot)
    ... )
    >>> again.state.rounds
    1
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        prices: Mapping[str, float],
        dimension: int | None = None,
        policy: Policy | None = None,
        aggregation: Aggregation = LABEL_VOTE,
        lambda_l: float | None = None,
        state: State | None = None,
    ) -> None:
        _check_object("aggregation", aggregation, "aggregate")
        self.policy: Policy = Joint() if policy is None else policy
        _check_object("policy", self.policy, "plan")
        self.labels = _checked_labels(labels)
        _check_scale(aggregation, self.labels)
        aggregation.guess(self.labels)  # refuses labels that the aggregation cannot decide between
        self.prices = _checked_prices(prices)
        self.aggregation = aggregation
        self.state = _checked_state(state, dimension, lambda_l, linear=self.policy.linear(aggregation))

    def task(self, embedding: ArrayLike) -> Task:
        """Plan one task.

        The plan is frozen: learning from other tasks later does not change it, so any number of tasks may be
        open at the same time.

        Args:
            embedding: the task's embedding, shape (d,), finite. It is copied.

        Raises:
            InvalidParameterError: the embedding has another shape or is not finite, or the policy cannot
                plan for these models and prices.
        """
        try:
            context = np.array(embedding, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError("the embedding is not an array of numbers") from error
        if context.shape != (self.state.dimension,):
            raise InvalidParameterError(
                f"the embedding has shape {context.shape}, the question expects ({self.state.dimension},)"
            )
        observation = Observation(self.state, context, self.labels, self.aggregation)
        plan = self.policy.plan({_KEY: observation}, self.prices)
        return Task(self.policy, plan, self.state, self.labels, self.aggregation)


def _checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    checked = tuple(labels)
    if isinstance(labels, str) or not all(isinstance(label, str) for label in checked):
        raise InvalidParameterError(f"labels must be a sequence of strings, got {labels!r}")
    if len(set(checked)) < len(checked):
        raise InvalidParameterError(f"labels must differ from each other, got {', '.join(checked)}")
    return checked


def _check_object(name: str, value: object, method: str) -> None:
    """Refuse a class, a name or the like where an object with this method is needed."""
    if isinstance(value, type):
        raise InvalidParameterError(f"{name} is a class", fix=f"make an object of it: {value.__name__}(…)")
    if not hasattr(value, method):
        raise InvalidParameterError(f"{name} must be an object, got {value!r}", fix="see docs/library.md")


def _check_scale(aggregation: Aggregation, labels: tuple[str, ...]) -> None:
    if isinstance(aggregation, OrderedVote) and aggregation.scale != labels:
        raise InvalidParameterError(
            "the labels are not those of the scale, in the same order", fix="pass the scale as labels"
        )


def _checked_prices(prices: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(prices, Mapping) or not prices:
        raise InvalidParameterError("prices must map at least one model to its price")
    for model, price in prices.items():
        if not isinstance(price, int | float | np.number) or not (math.isfinite(price) and price >= 0.0):
            raise InvalidParameterError(
                f"the price of {model!r} must be finite and not negative, got {price!r}"
            )
    return {model: float(price) for model, price in prices.items()}


def _checked_state(
    state: State | None, dimension: int | None, lambda_l: float | None, *, linear: bool
) -> State:
    if state is None:
        if dimension is None:
            raise InvalidParameterError(
                "a new question needs the length of its embeddings", fix="pass dimension=, or a state="
            )
        return State(dimension, 1.0 if lambda_l is None else lambda_l, linear=linear)
    if linear and not state.linear:
        raise InvalidParameterError(
            "the state keeps no linear models of the context, which the policy reads",
            fix="make the state with linear=True, or choose another policy",
        )
    parameters = (("dimension", dimension, state.dimension), ("lambda_l", lambda_l, state.lambda_l))
    for name, argument, value in parameters:
        if argument is not None and argument != value:
            raise InvalidParameterError(
                f"{name} is {argument}, but the state has {value}", fix=f"leave out {name}= or state="
            )
    return state
