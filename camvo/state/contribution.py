"""What one event teaches the state: changes to sums, as a value that can be stored and taken back.

**Confidences**: how sure the arms are of their votes and whether these votes were right, as signed counts.

An arm may give a confidence with its vote, such as the probability of its answer's tokens. Its meaning
is learnt for each arm from two sources:

- Rounds that asked all arms independently of the votes compare each vote with the weighted vote of the
  *other* arms. No human label is needed.
- Rounds with a human label compare each vote with the label.

A confidence is counted by its *level*, a step of a quarter on the logit scale, so the sums have a fixed size.

**Rounds that are kept whole** have a human label. Sums over single arms cannot show what a vote is worth
given other votes, so these rounds keep each arm's vote. Each can be taken back.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from camvo.numerics.small import TIE
from camvo.state.earlier import Earlier
from camvo.state.exploration import ExplorationRound
from camvo.student import Ngrams, TaughtText
from camvo.typing import Array

_UNKNOWN: Final[Mapping[str, float]] = MappingProxyType({})
"""The confidences of arms that gave none."""


class _CastVote(NamedTuple):
    """The vote of one arm that was asked."""

    arm: str
    label: str | None
    confidence: float | None = None

    def to_list(self) -> list[Any]:
        """The vote as plain JSON, without a confidence if there is none."""
        return [*self] if self.confidence is not None else [*self[:-1]]


@dataclass(frozen=True, slots=True)
class KeptRound:
    """One round that is kept whole.

    Attributes:
        votes: the votes of the arms that were asked, sorted by the arms' names.
        label: the human's label.
        everyone: whether the round asked all arms independently of the votes: its pattern counts, too.
    """

    votes: tuple[_CastVote, ...]
    label: str
    everyone: bool = field(default=False, compare=False)

    def renamed(self, names: Mapping[str, str]) -> KeptRound:
        """The same round with other names (old → new) for some arms."""
        votes = (vote._replace(arm=names.get(vote.arm, vote.arm)) for vote in self.votes)
        return replace(self, votes=tuple(sorted(votes, key=lambda vote: vote.arm)))

    def relabelled(self, label: Callable[[str], str | None]) -> KeptRound | None:
        """The same round with other labels; ``None`` if the human's label is none of them."""
        human = label(self.label)
        votes = (vote._replace(label=vote.label and label(vote.label)) for vote in self.votes)
        return None if human is None else replace(self, votes=tuple(votes), label=human)

    @classmethod
    def of(
        cls,
        votes: Mapping[str, str | None],
        label: str,
        sure: Mapping[str, float] = _UNKNOWN,
        *,
        everyone: bool = False,
    ) -> KeptRound:
        """The round to keep, from the votes of the arms that were asked and the human's label.

        A vote is ``None`` if the arm gave none; ``sure`` has the confidences in [0, 1] of the arms that gave
        one.
        """
        cast = tuple(_CastVote(arm, votes[arm], sure.get(arm)) for arm in sorted(votes))
        return cls(cast, label, everyone)

    def to_list(self) -> list[Any]:
        """The round as plain JSON."""
        return [[vote.to_list() for vote in self.votes], self.label, *([True] if self.everyone else [])]

    @classmethod
    def from_list(cls, data: list[Any]) -> KeptRound:
        """Inverse of :meth:`to_list`."""
        votes, label, *everyone = data
        return cls(tuple(_CastVote(*vote) for vote in votes), label, bool(everyone))


@dataclass(frozen=True, slots=True, eq=False)
class LatestRounds:
    """An immutable view of the latest kept rounds. Hashed by identity, so that fits of it can be cached.

    Attributes:
        rounds: the rounds, the oldest first.
    """

    rounds: tuple[KeptRound, ...] = ()


@dataclass(slots=True)
class KeptRounds:
    """The kept rounds, in the order in which they were added.

    Attributes:
        rounds: the rounds, the oldest first.
        owed: rounds that were removed before they were added, with their counts. Adding an owed round settles
            the debt instead.
    """

    rounds: list[KeptRound] = field(default_factory=list)
    owed: Counter[KeptRound] = field(default_factory=Counter)
    _latest: LatestRounds = field(default_factory=LatestRounds)
    _span: tuple[int, int] = (0, 0)

    def add(self, round_: KeptRound) -> None:
        """Add a round, or cancel it against one that is owed."""
        if self.owed[round_]:
            self.owed[round_] -= 1
        else:
            self.rounds.append(round_)
        self.owed = +self.owed

    def remove(self, round_: KeptRound) -> None:
        """Remove the latest round that equals ``round_``; without one, the round is owed."""
        for position in reversed(range(len(self.rounds))):
            if self.rounds[position] == round_:
                del self.rounds[position]
                if position < self._span[1]:
                    self._span, self._latest = (0, 0), LatestRounds()
                return
        self.owed[round_] += 1

    def renamed(self, names: Mapping[str, str]) -> KeptRounds:
        """The same rounds with other names (old → new) for some arms."""
        owed: Counter[KeptRound] = Counter()
        for round_, count in self.owed.items():
            owed[round_.renamed(names)] += count
        return KeptRounds([round_.renamed(names) for round_ in self.rounds], owed)

    def without_patterns(self) -> KeptRounds:
        """The same rounds, once the patterns of all rounds are forgotten."""
        return KeptRounds([replace(round_, everyone=False) for round_ in self.rounds], self.owed)

    def relabelled(self, label: Callable[[str], str | None]) -> KeptRounds:
        """The same rounds with other labels, without those whose label is none of them."""
        owed: Counter[KeptRound] = Counter()
        for round_, count in self.owed.items():
            if (changed := round_.relabelled(label)) is not None:
                owed[changed] += count
        rounds = [round_.relabelled(label) for round_ in self.rounds]
        return KeptRounds([round_ for round_ in rounds if round_ is not None], owed)

    def latest(self, most: int) -> LatestRounds:
        """At most ``most`` of the latest rounds.

        The newest rounds are left out until they make up a tenth of the rest. The view is the same object
        until then, or until one of its rounds is removed, so that costly fits are rarely repeated.
        """
        end = 0
        while end + end // 10 + 1 <= len(self.rounds):
            end += end // 10 + 1
        start = max(end - most, 0)
        if self._span != (start, end):
            self._span, self._latest = (start, end), LatestRounds(tuple(self.rounds[start:end]))
        return self._latest

    def to_list(self) -> list[Any]:
        """The rounds and the owed rounds as plain JSON, for a snapshot."""
        return [[round_.to_list() for round_ in part] for part in (self.rounds, [*self.owed.elements()])]

    @classmethod
    def from_list(cls, data: list[Any]) -> KeptRounds:
        """Inverse of :meth:`to_list`."""
        rounds, owed = ([KeptRound.from_list(round_) for round_ in part] for part in data)
        return cls(rounds, Counter(owed))


TOP_LEVEL: Final = 80
"""The highest level; the lowest is 0, and a confidence of ½ has the middle one."""

_STEPS_PER_LOGIT: Final = 4.0

_GROWTH: Final = 1.25
"""The growth of the number of votes after which the evidence is renewed. The distribution of
confidences hardly changes in a project, so fits need not be renewed with every vote."""


class SureVote(NamedTuple):
    """A vote with a confidence, compared with a label that the arm did not give itself.

    Attributes:
        arm: the arm's name.
        label: the label that it voted for.
        level: the level of its confidence, 0 to :data:`TOP_LEVEL`.
        right: whether the vote is that label.
    """

    arm: str
    label: str
    level: int
    right: bool

    def relabelled(self, label: Callable[[str], str | None]) -> SureVote | None:
        """The same vote with another label; ``None`` without one."""
        new = label(self.label)
        return None if new is None else self._replace(label=new)

    @classmethod
    def compared_with_others(
        cls, votes: Mapping[str, str | None], weights: Mapping[str, float], sure: Mapping[str, float]
    ) -> tuple[SureVote, ...]:
        """Compare each vote that has a confidence with the weighted vote of the other arms.

        A vote is left out if the others' leading labels are tied, or if none of them voted.
        """
        totals: dict[str, float] = {}
        for arm in sorted(votes):
            if (label := votes[arm]) is not None:
                totals[label] = totals.get(label, 0.0) + weights[arm]
        compared = []
        for arm in sorted(sure):
            if (vote := votes.get(arm)) is None:
                continue
            others = {**totals, vote: totals[vote] - weights[arm]}
            (best, leader), *rest = sorted(((total, label) for label, total in others.items()), reverse=True)
            if best - (rest[0][0] if rest else 0.0) > TIE:
                compared.append(cls(arm, vote, level_of(sure[arm]), vote == leader))
        return tuple(compared)


def level_of(confidence: float) -> int:
    """The level of a confidence in [0, 1]: 40 + 4·logit, rounded and clipped to the levels.

    >>> level_of(0.0), level_of(0.5), level_of(0.99), level_of(1.0)
    (0, 40, 58, 80)
    """
    if confidence <= 0.0:
        return 0
    if confidence >= 1.0:
        return TOP_LEVEL
    level = round(TOP_LEVEL / 2 + _STEPS_PER_LOGIT * math.log(confidence / (1.0 - confidence)))
    return min(max(level, 0), TOP_LEVEL)


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceCounts:
    """Votes by arm, label, level and whether they were right. Hashed by identity, so that fits can be cached.

    Attributes:
        by_others: the votes compared with those of other arms → their number.
        by_people: the votes compared with human labels → their number.
    """

    by_others: Mapping[SureVote, int] = field(default_factory=dict)
    by_people: Mapping[SureVote, int] = field(default_factory=dict)

    @property
    def votes(self) -> int:
        """The number of comparisons."""
        return sum(self.by_others.values()) + sum(self.by_people.values())

    def renamed(self, names: Mapping[str, str]) -> ConfidenceCounts:
        """The same counts with other names (old → new) for some arms."""
        return ConfidenceCounts(_renamed(self.by_others, names), _renamed(self.by_people, names))


NO_COUNTS: Final = ConfidenceCounts()
"""The counts of arms that give no confidences."""


@dataclass(slots=True)
class ConfidenceSums:
    """Signed sums over votes with a confidence.

    Attributes:
        by_others: the votes compared with those of other arms → their number.
        by_people: the votes compared with human labels → their number.
        evidence: the counts that fits read. They lag behind the sums by up to a fifth of the votes, because
            fits are costly.
    """

    by_others: Counter[SureVote] = field(default_factory=Counter)
    by_people: Counter[SureVote] = field(default_factory=Counter)
    evidence: ConfidenceCounts = field(default=NO_COUNTS, compare=False)
    _votes: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self._votes = self.by_others.total() + self.by_people.total()

    def add(self, compared: Iterable[SureVote], sign: int) -> None:
        """Add (+1) or take back (−1) comparisons with the votes of other arms."""
        self._count(self.by_others, compared, sign)

    def add_people(self, round_: KeptRound, sign: int) -> None:
        """Add (+1) or take back (−1) the comparisons with a round's human label."""
        compared = [
            SureVote(vote.arm, vote.label, level_of(vote.confidence), vote.label == round_.label)
            for vote in round_.votes
            if vote.confidence is not None and vote.label is not None
        ]
        self._count(self.by_people, compared, sign)

    def _count(self, sums: Counter[SureVote], compared: Iterable[SureVote], sign: int) -> None:
        for vote in compared:
            sums[vote] += sign
            self._votes += sign
            if not sums[vote]:
                del sums[vote]
        counted = self.evidence.votes
        if not counted <= self._votes <= counted * _GROWTH:
            self.evidence = ConfidenceCounts(dict(self.by_others), dict(self.by_people))

    def renamed(self, names: Mapping[str, str]) -> ConfidenceSums:
        """The same sums with other names (old → new) for some arms."""
        return ConfidenceSums(
            _renamed(self.by_others, names), _renamed(self.by_people, names), self.evidence.renamed(names)
        )

    def relabelled(self, label: Callable[[str], str | None]) -> ConfidenceSums:
        """The same sums with other labels."""
        sums = ConfidenceSums(_relabelled(self.by_others, label), _relabelled(self.by_people, label))
        sums.evidence = ConfidenceCounts(dict(sums.by_others), dict(sums.by_people))
        return sums

    def to_list(self) -> list[Any]:
        """The sums as plain JSON, for a snapshot."""
        parts = (self.by_others, self.by_people, self.evidence.by_others, self.evidence.by_people)
        return [[[*vote, count] for vote, count in part.items()] for part in parts]

    @classmethod
    def from_list(cls, data: list[Any]) -> ConfidenceSums:
        """Inverse of :meth:`to_list`."""
        parts = [Counter({SureVote(*vote): count for *vote, count in part}) for part in data]
        return cls(parts[0], parts[1], ConfidenceCounts(dict(parts[2]), dict(parts[3])))


def _renamed(counts: Mapping[SureVote, int], names: Mapping[str, str]) -> Counter[SureVote]:
    return Counter(
        {vote._replace(arm=names.get(vote.arm, vote.arm)): count for vote, count in counts.items()}
    )


def _relabelled(counts: Mapping[SureVote, int], label: Callable[[str], str | None]) -> Counter[SureVote]:
    changed: Counter[SureVote] = Counter()
    for vote, count in counts.items():
        if (new := vote.relabelled(label)) is not None:
            changed[new] += count
    return changed


RestartKind: TypeAlias = Literal["stops", "tasks", "arm", "version"]
"""The reason for a restart.

``"stops"``: early stops gave another label than promised too often. ``"tasks"``: the arms agree less with
each other, whichever of them is left out. ``"arm"``: one arm agrees with the others more or less often than
before. ``"version"``: an arm's provider reports another version.
"""


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart: what begins anew, and why.

    With ``"stops"`` and ``"tasks"`` the learned stops are forgotten. With ``"arm"`` and ``"version"`` one arm
    continues with another history. Its earlier sums are kept under the earlier history's number and do not
    count while another history is current.

    Attributes:
        kind: what was noticed.
        number: how many restarts of the question came before. Of several with one number the first counts.
        at: t, the number of rounds that were completed when it was noticed.
        rounds: the number of exploration rounds behind the test; for ``"stops"``, of those that tested a
            stop.
        wrong: for ``"stops"``, in how many of them the stop would have given another label than promised.
        promised: for ``"stops"``, in how many of them that was promised to happen.
        evidence: the natural logarithm of the test's wealth; ``None`` for a version.
        arm: the arm that has changed, if one has.
        history: the number of the history with which that arm continues: a new one, or for a version that the
            arm had before, the one of that time.
        resumed: whether the arm had that history before.
        version: the arm's version from now on, if its provider reports one.
        before: the arm's version until now, if its provider reports one.
    """

    kind: RestartKind
    number: int
    at: int = 0
    rounds: int = 0
    wrong: int | None = None
    promised: float | None = None
    evidence: float | None = None
    arm: str | None = None
    history: int = 0
    resumed: bool = False
    version: str | None = None
    before: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The restart as plain JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Restart:
        """Inverse of :meth:`to_dict`."""
        return cls(**data)


class Change(NamedTuple):
    """The change of one arm's rewards.

    Attributes:
        arm: the arm's name.
        q: the arm's estimate when the round was planned. It is stored unclipped.
        removed: the reward to take out, in [0, 1]; ``None`` for none.
        added: the reward to put in, in [0, 1]; ``None`` for none.
    """

    arm: str
    q: float
    removed: float | None
    added: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """What one event teaches the state: a finished round, a correction of its rewards, or a withdrawal.

    Attributes:
        context: the embedding e, shape (d,).
        changes: the changes of the arms' rewards.
        rounds: how many rounds the event completes: 1 for a finished round, 0 for a correction, −1 for a
            withdrawn round.
        exploration: what an exploration round shows about stopping early. It counts ``rounds`` times, so a
            correction does not change it and a withdrawal takes it back.
        kept: the round to keep whole, if any.
        dropped: the kept round that this event removes or replaces, if any.
        compared: votes with a confidence beside the votes of other arms. Like ``exploration``, they count
            ``rounds`` times.
        taught: the text that teaches the student, if any.
        untaught: the text that this event removes or replaces there, if any.
        histories: arm → the number of the history in which the round was planned; 0 for arms that are absent.
        restarts: how many restarts the state had when the round was planned.
        versions: arm → the version that its answer in this round reports. Arms without one are absent.
        restart: what begins anew with this event; such an event teaches nothing else.
        earlier: what earlier projects taught, in place of what the state knew of them.

    >>> lesson = Contribution(np.array([1.0, 0.0]), (Change("small", 0.5, None, 1.0),))
    >>> Contribution.unpack(lesson.pack()).changes
    (Change(arm='small', q=0.5, removed=None, added=1.0),)
    """

    context: Array
    changes: tuple[Change, ...]
    rounds: int = 1
    exploration: ExplorationRound | None = None
    kept: KeptRound | None = None
    dropped: KeptRound | None = None
    compared: tuple[SureVote, ...] = ()
    taught: TaughtText | None = None
    untaught: TaughtText | None = None
    histories: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    restart: Restart | None = None
    earlier: Earlier | None = None

    @classmethod
    def of_earlier(cls, earlier: Earlier, dimension: int) -> Contribution:
        """The event of earlier projects' lessons, for a state with contexts of the length ``dimension``."""
        return cls(np.zeros(dimension), (), rounds=0, earlier=earlier)

    @classmethod
    def of_restart(cls, restart: Restart, dimension: int) -> Contribution:
        """The event of a restart, for a state whose contexts have the length ``dimension``."""
        return cls(np.zeros(dimension), (), rounds=0, restart=restart)

    def pack(self, text: Ngrams = b"") -> bytes:
        """Serialise as a JSON header, a newline and the context, in float32 if that loses nothing.

        What is taught or untaught of ``text``, n-grams that are kept beside the context, has only its label
        in the header, and the n-grams follow the context.
        """
        dtype = (
            "<f4" if np.array_equal(self.context.astype("<f4").astype(np.float64), self.context) else "<f8"
        )
        header: dict[str, Any] = {
            "dtype": dtype,
            "rounds": self.rounds,
            "changes": [[c.arm, c.q, c.removed, c.added] for c in self.changes],
        }
        if self.exploration is not None:
            header["probe"] = self.exploration.to_list()
        if self.compared:
            header["sure"] = [list(vote) for vote in self.compared]
        for name, round_ in (("kept", self.kept), ("dropped", self.dropped)):
            if round_ is not None:
                header[name] = round_.to_list()
        follows = b""
        for name, lesson in (("taught", self.taught), ("untaught", self.untaught)):
            if lesson is not None and text and lesson.ngrams == text:
                header |= {name: [lesson.label], "text": len(text)}
                follows = text
            elif lesson is not None:
                header[name] = lesson.to_list()
        header |= {
            name: dict(numbers)
            for name, numbers in (("histories", self.histories), ("versions", self.versions))
            if numbers
        }
        if self.restarts:
            header["restarts"] = self.restarts
        if self.restart is not None:
            header["restart"] = self.restart.to_dict()
        if self.earlier is not None:
            header["earlier"] = self.earlier.to_list()
        head = json.dumps(header, separators=(",", ":")).encode()
        return head + b"\n" + self.context.astype(dtype).tobytes() + follows

    @classmethod
    def unpack(cls, data: bytes) -> Contribution:
        """Inverse of :meth:`pack`; the context comes back as float64."""
        head, _, body = data.partition(b"\n")
        header = json.loads(head)
        changes = tuple(Change(*change) for change in header["changes"])
        kept, dropped = (
            KeptRound.from_list(header[name]) if name in header else None for name in ("kept", "dropped")
        )
        end = len(body) - header.get("text", 0)
        context, text = np.frombuffer(body[:end], header["dtype"]).astype(np.float64), body[end:]
        exploration = ExplorationRound.from_list(header["probe"]) if "probe" in header else None
        compared = tuple(SureVote(*vote) for vote in header.get("sure", ()))
        taught, untaught = (_lesson(header.get(name), text) for name in ("taught", "untaught"))
        return cls(
            context,
            changes,
            header["rounds"],
            exploration,
            kept,
            dropped,
            compared,
            taught,
            untaught,
            histories=header.get("histories", {}),
            restarts=header.get("restarts", 0),
            versions=header.get("versions", {}),
            restart=Restart.from_dict(header["restart"]) if "restart" in header else None,
            earlier=Earlier.from_list(header["earlier"]) if "earlier" in header else None,
        )

    def relabelled(self, label: Callable[[str], str | None]) -> Contribution:
        """The same contribution with other labels. Rewards stay, so labels that become one earn no more."""
        compared = (vote.relabelled(label) for vote in self.compared)
        return replace(
            self,
            exploration=self.exploration and self.exploration.relabelled(label),
            kept=self.kept and self.kept.relabelled(label),
            dropped=self.dropped and self.dropped.relabelled(label),
            taught=self.taught and self.taught.relabelled(label),
            untaught=self.untaught and self.untaught.relabelled(label),
            compared=tuple(vote for vote in compared if vote is not None),
        )

    def withdrawal(self) -> Contribution:
        """The contribution that takes back everything that the round taught."""
        nothing = Contribution(self.context, (), rounds=0, histories=self.histories)
        return replace(revision(self, nothing), exploration=self.exploration, compared=self.compared)


def _lesson(data: list[str] | None, text: Ngrams) -> TaughtText | None:
    """The header's entry for a text: nothing, its label alone, or the n-grams too."""
    if data is None:
        return None
    return TaughtText(text, data[0]) if len(data) == 1 else TaughtText.from_list(data)


def revision(before: Contribution, after: Contribution) -> Contribution:
    """The contribution that replaces ``before`` by ``after``, two contributions of the same round.

    If no reward differs, there are no changes. Otherwise all arms of the round have a change, including those
    whose reward stays the same, because the sums over pairs of arms need both rewards of a pair.
    """
    old = {change.arm: change for change in before.changes}
    new = {change.arm: change for change in after.changes}
    changes = tuple(
        Change(
            arm=arm,
            q=(new.get(arm) or old[arm]).q,
            removed=old[arm].added if arm in old else None,
            added=new[arm].added if arm in new else None,
        )
        for arm in dict.fromkeys([*old, *new])
    )
    changed = any(change.removed != change.added for change in changes)
    kept, dropped = (None, None) if before.kept == after.kept else (after.kept, before.kept)
    taught, untaught = (None, None) if before.taught == after.taught else (after.taught, before.taught)
    rounds = after.rounds - before.rounds
    return Contribution(
        before.context,
        changes if changed else (),
        rounds,
        kept=kept,
        dropped=dropped,
        taught=taught,
        untaught=untaught,
        histories=before.histories,
    )
