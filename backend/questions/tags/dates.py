"""DateTime: a date, a time, both, or a year. Votes are in ISO form, whatever the config's ``format`` is.

Label Studio stores ``{"datetime": "…"}`` in the strftime ``format``, by default ISO; a time alone is always
``%H:%M``. For a month the editor stores the first of January, so months are not voted on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from backend.questions.controls import (
    AnswerFormat,
    Control,
    ControlTag,
    ResultItem,
    TaskContent,
    item_content,
)
from backend.questions.naming import unwrapped, usual_entries
from backend.questions.xml import Element, Tree, attribute
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.texts import OpenVote

_DATE, _TIME, _BOTH, _YEAR = "%Y-%m-%d", "%H:%M", "%Y-%m-%dT%H:%M", "%Y"
_ONLY = {"": _BOTH, "date,time": _BOTH, "date": _DATE, "time": _TIME, "year": _YEAR}
_ASKED = {
    _DATE: ("a date", "YYYY-MM-DD"),
    _TIME: ("a time of day", "hh:mm"),
    _BOTH: ("a date with its time", "YYYY-MM-DDThh:mm"),
    _YEAR: ("a year", "YYYY"),
}
_BOUND = re.compile(r"[0-9]{4}(-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2})?)?")
_WHOLE = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)", re.ASCII)
"""A moment in any of ISO's spellings; a time zone matters to the time alone."""
_OTHERS = {
    _DATE: (
        "%Y/%m/%d",
        "%Y.%m.%d",
        "%Y年%m月%d日",
        *(f"{day} %Y" for day in ("%B %d,", "%b %d,", "%d %B", "%d %b")),
    ),
    _TIME: ("%I:%M %p", "%I:%M%p"),
}
"""Other forms of a date or a time that can be read in one way only."""
_DIRECTIVE = re.compile(r"%(.?)")
_DIRECTIVES = frozenset("YymdHMSIpBb")
"""The directives with the same meaning in Python and in d3, which the editor uses."""


def _obstacle(element: Element, _: Tree) -> str | None:
    """Return why this DateTime cannot be voted on, or ``None``."""
    if _iso(element) is None:
        return f'only="{attribute(element, "only")}" is not supported: use date, time, "date,time" or year'
    for name in ("min", "max"):
        bound = _bound(element, name)
        if bound is not None and not _BOUND.fullmatch(bound):
            return f'{name}="{bound}" is neither a year nor a date in ISO form'
    unknown = set(_DIRECTIVE.findall(_format(element))) - _DIRECTIVES
    if unknown:
        return f"its format has %{min(unknown)}, which is not supported yet"
    if _iso(element) != _TIME and not re.search("%[Yy]", _format(element)):
        return "its format has no year, so a stored date cannot be read back"
    return None


def _read_control(element: Element, _: Tree) -> Control:
    """Return the control with its parts, its format and its bounds."""
    low, high = _bound(element, "min"), _bound(element, "max")
    return _DateTimeControl(_iso(element) or _BOTH, _format(element), low, high)


TAG: Final = ControlTag(_obstacle, _read_control)


@dataclass(frozen=True, slots=True)
class _DateTimeControl:
    """A moment; the vote is its ISO form.

    Attributes:
        iso: the strftime format of votes.
        format: the strftime format in which Label Studio stores the moment.
        low: the earliest date in ISO form, or the earliest year. Bounds do not apply to times.
        high: the latest date in ISO form, or the latest year.
    """

    iso: str
    format: str
    low: str | None = None
    high: str | None = None

    @property
    def aggregation(self) -> Aggregation:
        """The vote over the moments that models name."""
        return OpenVote("exact")

    @property
    def answer_format(self) -> AnswerFormat:
        """A string in ISO form."""
        what, form = _ASKED[self.iso]
        bounds = "" if self.low is None else f" from {self.low}"
        bounds += "" if self.high is None else f" until {self.high}"
        return AnswerFormat(f"Give {what}{bounds}, in the form {form}.", f"<{form}>", {"type": "string"})

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return nothing: moments are not listed."""
        return ()

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the moment as precisely as the format can store it; seconds are dropped."""
        answer = answer[0] if isinstance(answer, list) and len(answer) == 1 else answer
        if isinstance(answer, dict):
            answer = usual[0] if len(usual := usual_entries(answer)) == 1 else None
        text = str(answer) if isinstance(answer, int) and self.iso == _YEAR else answer
        if not isinstance(text, str):
            return None
        text = unwrapped(text)[-1].strip("*_ ")
        if (whole := _WHOLE.fullmatch(text)) is not None and self.iso in {_DATE, _BOTH}:
            text = whole[1] if self.iso == _DATE else f"{whole[1]}T{whole[2]}"
        forms = [self.iso, *(f"{self.iso}:%S" for _ in [0] if self.iso.endswith(_TIME))]
        forms += _OTHERS.get(self.iso, ())
        moment = next((parsed for form in forms if (parsed := _parsed(text, form)) is not None), None)
        return None if moment is None else self._canonical(moment.strftime(self.format))

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item in the config's format."""
        moment = _parsed(vote, self.iso)
        if moment is None:
            raise InvalidParameterError("the vote on a DateTime is not in ISO form")
        return [{"value": {"datetime": moment.strftime(self.format)}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the moment that the editor stored."""
        written = item_content(items, "datetime")
        return self._canonical(written) if isinstance(written, str) else None

    def _canonical(self, written: str) -> str | None:
        """Return the ISO form of a moment in the config's format; ``None`` if it is outside the bounds."""
        moment = _parsed(written, self.format)
        if moment is None:
            return None
        text = moment.strftime(self.iso)
        date = text[: len("YYYY-MM-DD")]
        if self.iso != _TIME and ((self.low and date < self.low) or (self.high and date > self.high)):
            return None
        return text


def _parsed(text: str, form: str) -> datetime | None:
    try:
        moment = datetime.strptime(text.strip(), form)
    except ValueError:
        return None
    return moment if moment.year >= 1000 else None


def _bound(element: Element, name: str) -> str | None:
    """Return a bound. The editor's ``current`` only limits the years that it lists, so it is no bound."""
    bound = attribute(element, name)
    return None if bound == "current" else bound


def _iso(element: Element) -> str | None:
    parts = sorted(part.strip() for part in (attribute(element, "only") or "").split(","))
    return _ONLY.get(",".join(parts))


def _format(element: Element) -> str:
    iso = _iso(element) or _BOTH
    if iso == _TIME:
        return iso
    return attribute(element, "format") or (_DATE if iso == _YEAR else iso)
