"""New instructions compared with earlier ones as they go: which text's labels are right more often.

Both labels of a task that models were asked about under both texts are judged by what people say. The test
holds at every look (:mod:`camvo.numerics.comparisons`), because a person looks whenever they like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from sqlalchemy import Connection

from backend.learning.label_schemes import epochs_with_other_instructions
from backend.ledger.decided import JudgedTwice, asked_by_score, judged_twice
from backend.ledger.schemes import Schemes
from camvo.numerics.comparisons import Race

Verdict = Literal["better", "worse", "undecided", "selected"]

_BEFORE: Final = "before"
_AFTER: Final = "after"


@dataclass(frozen=True, slots=True)
class TextComparison:
    """What the labels of two texts say.

    Attributes:
        control: the question.
        tasks: how many tasks both texts have labelled and people have judged.
        before: the mean reward under the earlier text; ``None`` without such a task.
        after: that under the present one.
        verdict: whether the present text is ``better`` or ``worse``, each with a probability of error of 5%
            over all looks; ``undecided``; or ``selected``, if only tasks with low scores were asked about
            again, which says nothing of a text.
    """

    control: str
    tasks: int
    before: float | None
    after: float | None
    verdict: Verdict

    @property
    def said(self) -> str:
        """The comparison as a sentence."""
        if self.before is None or self.after is None:
            return "no task that people have judged without a suggestion has a label under both texts yet"
        right = f"{self.after:.1%} right now and {self.before:.1%} before, on {self.tasks:,} tasks"
        return f"{right}: {_VERDICTS[self.verdict]}"


_VERDICTS: Final[Mapping[Verdict, str]] = {
    "better": "the present text is better",
    "worse": "the present text is worse; the one before and its labels can come back for nothing",
    "undecided": "not told apart yet",
    "selected": "not compared, since only tasks with low scores were asked about again; camvo try compares",
}


def compare_texts_so_far(connection: Connection, project: str) -> list[TextComparison]:
    """Compare each question's present instructions with the latest ones before that models read."""
    schemes = Schemes(connection, project).all()
    found = []
    for control, scheme in {scheme.control: scheme for scheme in schemes}.items():
        for epoch in epochs_with_other_instructions(schemes, scheme):
            place = (connection, project, control, epoch, scheme.epoch)
            asked = asked_by_score(*place)
            if asked.again:
                found.append(_compared(control, judged_twice(*place), selected=asked.selected))
                break
    return found


def _compared(control: str, tasks: Sequence[JudgedTwice], *, selected: bool) -> TextComparison:
    better, worse = Race([_BEFORE, _AFTER]), Race([_AFTER, _BEFORE])
    for task in tasks:
        rewards: Mapping[str, float] = {_BEFORE: task.before, _AFTER: task.after}
        for race in (better, worse):
            if not race.is_over:
                race.add(rewards)
    verdict: Verdict = "better" if better.proven else "worse" if worse.proven else "undecided"
    before = fmean(task.before for task in tasks) if tasks else None
    after = fmean(task.after for task in tasks) if tasks else None
    return TextComparison(control, len(tasks), before, after, "selected" if selected else verdict)
