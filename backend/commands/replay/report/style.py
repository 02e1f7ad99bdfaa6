"""How the settings of a replay are told apart in every picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.charts.style import COLOURS
from backend.commands.replay.report.data import SettingRuns

_SOLID: tuple[float, ...] = ()
_LINES = (_SOLID, (5, 2), (1.5, 1.5), (6, 2, 1, 2), (10, 2), (3, 1, 1, 1, 1, 1))
"""Dashes and gaps, in line widths."""
_MARKERS = ("o", "s", "^", "D", "<", "p")
_PLAIN_MARKERS = ("v", "P", "X", ">")


@dataclass(frozen=True)
class Style:
    """How one setting is drawn in every picture."""

    colour: str
    dashes: tuple[float, ...]
    marker: str


def styles(settings: Sequence[SettingRuns]) -> list[Style]:
    """Choose a colour for each policy and δ or agreement; settings that share it differ in lines and markers.

    A policy without δ has its own marker, because several of them may lie on one point.
    """
    colours: dict[tuple[str, float | None, float | None], str] = {}
    used: dict[str, int] = {}
    chosen, plain = [], 0
    for setting in settings:
        summary = setting.summary
        key = summary.policy, summary.delta, summary.agreement_asked
        colour = colours.setdefault(key, COLOURS[len(colours) % len(COLOURS)])
        number = used[colour] = used.get(colour, -1) + 1
        marker = _MARKERS[number % len(_MARKERS)]
        if summary.delta is None:
            marker, plain = _PLAIN_MARKERS[plain % len(_PLAIN_MARKERS)], plain + 1
        chosen.append(Style(colour, _LINES[number % len(_LINES)], marker))
    return chosen
