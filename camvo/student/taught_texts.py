"""The texts that teach the student, each with its label. They are added and taken back like rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from camvo.student.ngrams import Ngrams, from_json, is_sealed, sealed, to_json

STUDENT: Final = "student"
"""The name of the student among the arms."""

MOST_TEXTS: Final = 20_000
"""How many texts are kept. Later ones do not teach, so that memory does not grow with the rounds; a text of
200 characters takes half a kilobyte."""

_GROWTH: Final = 1.25
"""The growth of the number of texts after which the student learns again."""


def without_silent_student(votes: Mapping[str, str | None]) -> dict[str, str | None]:
    """The votes without the student's entry if it said nothing, for people: it cost nothing and did nothing.

    Args:
        votes: arm → label, ``None`` if the arm gave none.

    >>> without_silent_student({"small": "pos", "large": None, "student": None})
    {'small': 'pos', 'large': None}
    """
    return {arm: vote for arm, vote in votes.items() if arm != STUDENT or vote is not None}


class TaughtText(NamedTuple):
    """One text that teaches.

    Attributes:
        ngrams: its features, or their seal once the text must be forgotten.
        label: the human label if there is one, otherwise the label that the other arms voted for.
    """

    ngrams: Ngrams
    label: str

    @property
    def sealed(self) -> TaughtText:
        """The text with the seal of its features. Texts with equal seals and labels are the same lesson."""
        return TaughtText(sealed(self.ngrams), self.label)

    def to_list(self) -> list[str]:
        """The text as plain JSON."""
        return [to_json(self.ngrams), self.label]

    @classmethod
    def from_list(cls, data: Sequence[str]) -> TaughtText:
        """Inverse of :meth:`to_list`."""
        ngrams, label = data
        return cls(from_json(ngrams), label)


class StudiedText(NamedTuple):
    """The text of a round, which teaches by the label that the round ends with.

    Attributes:
        ngrams: its features.
        voted: the label that the other arms voted for; ``None`` if none of them voted.
    """

    ngrams: Ngrams
    voted: str | None

    def lesson(self, human: str | None) -> TaughtText | None:
        """What it teaches, by the human label if there is one; ``None`` if nobody says what is right."""
        label = human or self.voted
        return None if label is None else TaughtText(self.ngrams, label)

    def to_list(self) -> list[str | None]:
        """What a round's plan says of it, as plain JSON. The n-grams are kept beside the round's context."""
        return [self.voted]

    @classmethod
    def from_list(cls, data: Sequence[str | None], ngrams: Ngrams) -> StudiedText:
        """Inverse of :meth:`to_list`; plans of older versions hold the n-grams too.

        Args:
            data: what the plan says.
            ngrams: the n-grams beside the round.
        """
        *inside, voted = data
        return cls(from_json(inside[0] or "") if inside else ngrams, voted)


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """An immutable view of the texts. Hashed by identity, so that the student taught by it can be cached.

    Attributes:
        texts: the texts, the oldest first.
    """

    texts: tuple[TaughtText, ...] = ()


NO_LESSONS: Final = Lessons()


@dataclass(slots=True)
class TaughtTexts:
    """The texts that teach, in the order in which they were added.

    Sums over the same events have the same lessons in the same order, whether the features of a text were
    sealed before it was added, before it was taken back, or never.

    Attributes:
        texts: the texts, the oldest first.
        owed: the seals of texts that were removed before they were added, with their counts.
        lessons: the texts that the student has learnt from. They lag behind by a fifth at most, and are
            renewed at once if one of them is taken back.
    """

    texts: list[TaughtText] = field(default_factory=list)
    owed: Counter[TaughtText] = field(default_factory=Counter)
    lessons: Lessons = field(default=NO_LESSONS, compare=False)
    _seals: list[Ngrams] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._seals = [sealed(text.ngrams) for text in self.texts]

    @property
    def full(self) -> bool:
        """Whether no further text should teach."""
        return len(self.texts) >= MOST_TEXTS

    def add(self, text: TaughtText) -> None:
        """Add a text, or cancel it against one that is owed."""
        if self.owed[text.sealed] > 0:
            self.owed[text.sealed] -= 1
        else:
            self.texts.append(text)
            self._seals.append(sealed(text.ngrams))
            if len(self.texts) > _GROWTH * len(self.lessons.texts):
                self.lessons = Lessons(tuple(self.texts))
        self.owed = +self.owed

    def remove(self, text: TaughtText) -> None:
        """Remove the latest text that is the same lesson; without one, it is owed.

        The features of the one that is removed go to an earlier one whose features are sealed: that is the
        one which had to be forgotten.
        """
        same = self._same(text.sealed)
        if not same:
            self.owed[text.sealed] += 1
            return
        *earlier, last = same
        removed, known = self.texts.pop(last), len(self.lessons.texts)
        del self._seals[last]
        if last < known:
            known -= 1
            self.lessons = Lessons(tuple(self.texts[:known]))
        for at in earlier:
            if is_sealed(self.texts[at].ngrams) and not is_sealed(removed.ngrams):
                self.texts[at] = removed
                self.lessons = Lessons(tuple(self.texts[:known]))
                return

    def _same(self, lesson: TaughtText) -> list[int]:
        """The positions of a sealed lesson, ascending; found by the list itself, as there are thousands."""
        found, after = [], 0
        for _ in range(self._seals.count(lesson.ngrams)):
            after = self._seals.index(lesson.ngrams, after) + 1
            found.append(after - 1)
        return [at for at in found if self.texts[at].label == lesson.label]

    def to_list(self) -> list[Any]:
        """The texts as plain JSON, for a snapshot."""
        owed = [text.to_list() for text in self.owed.elements()]
        return [[text.to_list() for text in self.texts], owed, len(self.lessons.texts)]

    @classmethod
    def from_list(cls, data: list[Any]) -> TaughtTexts:
        """Inverse of :meth:`to_list`."""
        texts, owed = ([TaughtText.from_list(row) for row in part] for part in data[:2])
        return cls(texts, Counter(text.sealed for text in owed), Lessons(tuple(texts[: data[2]])))
