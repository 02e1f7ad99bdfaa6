"""What models reply about a task: votes, what they cost, and why one is missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from backend.annotation.job import Job
from backend.errors import (
    BadAnswerError,
    BudgetExhaustedError,
    CutOffError,
    KeyRejectedError,
    ModelTimeoutError,
    NoUsableAnswerError,
    NoVoteError,
    RateLimitedError,
    RefusedError,
    RejectedError,
    UnavailableError,
    UnusableAnswersError,
    cure_of,
)
from backend.models.call_ledger import PaidAnswer
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.packs import PACK_VERSION
from backend.questions.question import TaskQuestion
from camvo.policies.policy import Plan
from camvo.student import STUDENT
from camvo.twins import once_each


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The result of asking one model.

    Attributes:
        votes: question → vote; empty if the model failed.
        cost: what was paid for it, $.
        earlier: what the task paid for it in a run that ended before its round, $.
        failure: the code of the reason why there are no votes; ``None`` if there are.
        confidences: question → how sure the model says it is of its vote, in [0, 1]; questions of which it
            says nothing are absent.
        version: the model's name at its provider, as the answer reports it; ``None`` if it reports none.
        together: whether the votes come from a prompt about several tasks.
    """

    votes: Mapping[str, str]
    cost: float
    failure: str | None = None
    earlier: float = 0.0
    confidences: Mapping[str, float] = field(default_factory=dict)
    version: str | None = None
    together: bool = False


def voted_reply(votes: Mapping[str, str], answer: PaidAnswer) -> ModelReply:
    """The reply of a model whose answer gives votes, by question."""
    sure = {name: confidence for name, confidence in answer.confidences.items() if name in votes}
    # Fingerprints of several systems alternate all the time, so they say nothing about the model.
    version = (answer.version or "").partition(" ")[0] or None
    return ModelReply(votes, answer.cost, earlier=answer.earlier, confidences=sure, version=version)


def packed_reply(votes: Mapping[str, str], answer: PaidAnswer) -> ModelReply:
    """The reply of a packed arm; without votes if the task is missing in the answer."""
    version = _packed_version((answer.version or "").partition(" ")[0])
    return ModelReply(votes, answer.cost, earlier=answer.earlier, version=version, together=True)


def asked_singly(together: ModelReply, alone: ModelReply) -> ModelReply:
    """The reply of a packed arm whose answer says nothing about the task: the single vote, at both prices."""
    version = _packed_version(alone.version) if alone.votes else None
    cost, earlier = together.cost + alone.cost, together.earlier + alone.earlier
    return replace(alone, cost=cost, earlier=earlier, confidences={}, version=version)


def _packed_version(version: str | None) -> str:
    """The version of a packed arm. A new wording of its prompts also restarts its history."""
    return f"{version or 'unnamed'} pack-{PACK_VERSION}"


def votes_in(content: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """Return the votes in an answer by question; empty if it is unusable."""
    try:
        return parse_answer(content, questions)
    except BadAnswerError:
        return {}


_REFUSAL: Final = re.compile(
    r"\W*(?:(?:(?:i'm|i am|we're|we are) )?(?:very |really |so )?sorry|i apologi[sz]e|unfortunately"
    r"|as an ai\b[^.]{0,60}|i must decline|i (?:cannot|can't|can not|won't|will not|am unable|am not able)"
    r"|i'm (?:unable|not able))\b"
)
_UNWILLING: Final = re.compile(
    r"\b(?:i|we)(?: am|'m| are|'re| must| have to)? ?"
    r"(?:cannot|can't|can not|won't|will not|decline|refuse|unable|not able)\b"
)
"""Together, at the beginning of an answer, a refusal in English."""

_BEGINNING: Final = 300


def unusable_code(content: str, *, cut_off: bool) -> str:
    """Return the code of the reason why an answer gives no vote."""
    words = " ".join(content[:_BEGINNING].casefold().replace("’", "'").split())
    if _REFUSAL.match(words) and _UNWILLING.search(words):
        return RefusedError.code
    return CutOffError.code if cut_off else BadAnswerError.code


PASSING: Final = frozenset(
    each.code
    for each in (
        ModelTimeoutError,
        RateLimitedError,
        UnavailableError,
        KeyRejectedError,
        RejectedError,
        BudgetExhaustedError,
    )
)
"""The codes of the reasons for a missing vote that can pass, so that asking again may bring the vote."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A model that could not be asked, because it rested.

    Attributes:
        code: that of the reason for which it rested.
        usd: what asking it would probably have cost, $.
    """

    code: str
    usd: float


@dataclass(frozen=True, slots=True)
class Bill:
    """What the answers on a task cost, in $.

    Attributes:
        paid: what was paid, also in a run that ended before the task's round.
        full: the cost of asking every model once, each by its cheaper arm. One whose reply cost nothing has
            its expected price: it failed, was not asked, or another task had paid for its answer.
        bounded: the part of ``full`` of which only an upper bound is known.
        reused: the prices of the answers that another task had paid for.
    """

    paid: float
    full: float
    bounded: float
    reused: Sequence[float]


@dataclass(frozen=True, slots=True)
class Replies:
    """The replies to one task.

    Attributes:
        arms: the replies that the policy reads: those of the plan's arms.
        beside: those of models that the plan does not contain: a coin chose them, or another plan did.
        left_out: the models that could not be asked, because they rested.
        bounded: the arms whose expected price was only an upper bound.
    """

    arms: dict[str, ModelReply]
    beside: dict[str, ModelReply] = field(default_factory=dict)
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    bounded: frozenset[str] = frozenset()

    @property
    def any_vote(self) -> bool:
        """Whether an arm of the plan has voted."""
        return any(reply.votes for reply in self.arms.values())

    @property
    def votes(self) -> dict[str, Mapping[str, str]]:
        """The votes: arm → question → vote; an arm that failed has none."""
        return {arm: reply.votes for arm, reply in self.arms.items()}

    @property
    def confidences(self) -> dict[str, Mapping[str, float]]:
        """How sure the models say they are: arm → question → confidence; arms that say nothing are absent."""
        return {arm: reply.confidences for arm, reply in self.arms.items() if reply.confidences}

    def failures(self, question: str) -> dict[str, str | None]:
        """Why arms gave no vote on a question: arm → the code of the reason, ``None`` if nothing failed.

        An answer that leaves out one of several questions is unusable for that one. Models that rested are
        among the arms.
        """
        return {
            arm: reply.failure or (BadAnswerError.code if reply.votes else None)
            for arm, reply in self.arms.items()
            if question not in reply.votes and arm != STUDENT
        } | {arm: model.code for arm, model in self.left_out.items()}

    @property
    def versions(self) -> dict[str, str]:
        """The version that each model's answer reports, for those that report one."""
        return {arm: reply.version for arm, reply in self.arms.items() if reply.version is not None}

    def missing(self, arms: Collection[str]) -> dict[str, str]:
        """The arms whose vote may still come: arm → the code of the reason why it is not there.

        A model that was left out belongs to them if every other arm was asked: it would have been asked, too.
        """
        failed = {arm: reply.failure for arm, reply in self.arms.items() if reply.failure in PASSING}
        if not set(arms) <= self.arms.keys():
            return failed
        return failed | {arm: model.code for arm, model in self.left_out.items() if model.code in PASSING}

    def bill(self, plan: Plan) -> Bill:
        """What the replies cost, beside what asking every model would have."""
        replies = self.beside | self.arms
        paid = {arm: reply.cost + reply.earlier for arm, reply in replies.items()}
        prices = {arm: model.usd for arm, model in self.left_out.items()}
        prices |= zip(plan.arms, map(float, plan.costs), strict=True)
        prices |= {arm: cost for arm, cost in paid.items() if cost > 0.0}
        full = once_each(prices)
        voters = [arm for arm, reply in replies.items() if reply.votes]
        return Bill(
            paid=sum(paid.values()),
            full=sum(full.values()),
            bounded=sum(cost for arm, cost in full.items() if arm in self.bounded and not paid.get(arm)),
            reused=[prices[arm] for arm in voters if paid[arm] <= 0.0 and prices.get(arm, 0.0) > 0.0],
        )


def no_vote_error(job: Job, replies: Replies, undecided: Sequence[str] = ()) -> NoVoteError:
    """Return the error for a task on which no model voted, or not on some of its questions.

    It names each model with its reason and cure, and the questions if models voted on others.
    """
    where = f"task {job.task}"
    about = f" to {', '.join(undecided)}" if undecided else ""
    failed: dict[str, list[str]] = {}
    for arm, reply in replies.arms.items():
        others = BadAnswerError.code if reply.votes and arm != STUDENT else None
        if (code := reply.failure or others) is not None:
            failed.setdefault(code, []).append(arm)
    number = sum(map(len, failed.values()))
    if failed.keys() == {UnusableAnswersError.code}:
        return NoUsableAnswerError(
            f"all attempts of the {number} models that were asked brought unusable answers{about}",
            where=where,
            fix=NoUsableAnswerError.cure,
        )
    reasons = "; ".join(f"{code}: {', '.join(arms)}" for code, arms in sorted(failed.items()))
    cures = [f"{', '.join(arms)}: {cure_of(code)}" for code, arms in sorted(failed.items())]
    return NoVoteError(
        f"none of the {number} models that were asked gave a valid answer{about} ({reasons})",
        where=where,
        fix="; ".join(cures) or NoVoteError.cure,
        reason=max(sorted(failed), key=lambda code: len(failed[code]), default=None),
    )
