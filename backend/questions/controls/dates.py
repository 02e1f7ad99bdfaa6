"""DateTime: a date, a time, both, or a year. The vote is over ISO forms, whatever the config's ``format``.

Label Studio stores ``{"datetime": "…"}``, written in the strftime ``format`` (ISO if there is none; always
``%H:%M`` for a time alone). What is stored for a month is the first of January, so months are not voted on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from backend.questions.controls.control import Control, Item, Request, Shown, content
from backend.questions.xml.element import Element, attribute
from backend.questions.xml.tree import Tree
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
_DIRECTIVE = re.compile(r"%(.?)")
_DIRECTIVES = frozenset("YymdHMSIpBb")
"""What means the same to d3, which the editor uses, and to Python."""


def obstacle(element: Element, _: Tree) -> str | None:
    """Why this DateTime cannot be voted on, or ``None``."""
    if _iso(element) is None:
        return f'only="{attribute(element, "only")}" is not supported: it is date, time, "date,time" or year'
    for name in ("min", "max"):
        bound = _bound(element, name)
        if bound is not None and not _BOUND.fullmatch(bound):
            return f'{name}="{bound}" is neither a year nor a date in ISO form'
    unknown = set(_DIRECTIVE.findall(_format(element))) - _DIRECTIVES
    if unknown:
        return f"its format has %{min(unknown)}, which is not supported yet"
    if _iso(element) != _TIME and not re.search("%[Yy]", _format(element)):
        return "its format has no year, so that the date cannot be read again"
    return None


def read(element: Element, _: Tree) -> Control:
    """Which parts are asked for, how they are written, and their bounds."""
    low, high = _bound(element, "min"), _bound(element, "max")
    return DateTimeControl(_iso(element) or _BOTH, _format(element), low, high)


@dataclass(frozen=True, slots=True)
class DateTimeControl:
    """A moment; the vote is its ISO form.

    Attributes:
        iso: the strftime form of votes.
        format: of what Label Studio stores.
        low: the earliest date in ISO form, or the earliest year; bounds say nothing about times.
        high: the latest.
    """

    iso: str
    format: str
    low: str | None = None
    high: str | None = None

    @property
    def aggregation(self) -> Aggregation:
        """The vote over the moments that were named."""
        return OpenVote("exact")

    @property
    def request(self) -> Request:
        """A string in ISO form."""
        what, form = _ASKED[self.iso]
        bounds = "" if self.low is None else f" from {self.low}"
        bounds += "" if self.high is None else f" until {self.high}"
        return Request(f"Give {what}{bounds}, in the form {form}.", f"<{form}>", {"type": "string"})

    def options(self, _: Shown) -> tuple[str, ...]:
        """None: moments are not listed."""
        return ()

    def vote(self, given: object, _: Shown) -> str | None:
        """The moment, as the format can store it; seconds are dropped."""
        text = str(given) if isinstance(given, int) and self.iso == _YEAR else given
        if not isinstance(text, str):
            return None
        forms = [self.iso, *(f"{self.iso}:%S" for _ in [0] if self.iso.endswith(_TIME))]
        moment = next((read for form in forms if (read := _parsed(text, form)) is not None), None)
        return None if moment is None else self._canonical(moment.strftime(self.format))

    def items(self, vote: str, _: Shown) -> list[dict[str, Any]]:
        """One item in the config's format."""
        moment = _parsed(vote, self.iso)
        if moment is None:
            raise InvalidParameterError("a vote on a DateTime is not in ISO form")
        return [{"value": {"datetime": moment.strftime(self.format)}}]

    def answer(self, items: Sequence[Item]) -> str | None:
        """What the editor wrote."""
        written = content(items, "datetime")
        return self._canonical(written) if isinstance(written, str) else None

    def _canonical(self, written: str) -> str | None:
        """The ISO form of what is written in the format, within the bounds as the editor compares them."""
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
    """The editor's ``current`` is about which years it lists, and bounds nothing."""
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
