"""How the report writes numbers, shares, dollars and times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from backend.datasets.tasks import task_name
from backend.ledger.projects import is_of_label_studio

_NOTHING = "–"


def count(value: int | None) -> str:
    """A whole number with commas between the thousands."""
    return _NOTHING if value is None else f"{value:,}"


_OF_ONE = {"are": "is", "have": "has", "were": "was", "teach": "teaches"}
"""Verbs of several → those of one, where that is not the same with an s."""


def verb_of(value: int, verb: str) -> str:
    """The verb of several things, as it is of so many: ``is`` of 1 for ``are``."""
    return verb if value != 1 else _OF_ONE.get(verb, f"{verb}s")


def of(value: int, noun: str, verb: str = "") -> str:
    """A number and its noun, maybe with a verb: ``1 label is``, ``2 labels are``."""
    said = f"{count(value)} {noun}" + ("" if value == 1 else "s")
    return f"{said} {verb_of(value, verb)}" if verb else said


def _kind_of_tasks(place: int, kinds: int) -> str:
    """The name of a kind of tasks by its place, 1 for the easiest."""
    return {1: "Easy", kinds: "Hard"}.get(place, "Medium" if kinds == 3 else f"Medium {place - 1}")


def dollars(value: float | None) -> str:
    """Dollars: two decimals from $100, four decimals from one cent, and three digits below that."""
    if value is None:
        return _NOTHING
    if value >= 100.0:
        return f"${value:,.2f}"
    if value >= 0.01 or value <= 0.0:
        return f"${value:.4f}" if value else "$0"
    decimals = 2 - math.floor(math.log10(value))
    return f"${value:.{decimals}f}".rstrip("0")


def amount(usd: float) -> str:
    """A sum as people set it: cents from a dollar on, and two significant digits below that."""
    if usd >= 1.0:
        return f"${usd:,.2f}".removesuffix(".00")
    return f"${usd:.{1 - math.floor(math.log10(usd))}f}".rstrip("0") if usd > 0.0 else "$0"


def percent(value: float | None) -> str:
    """A share in [0, 1] as a percentage with one decimal."""
    return _NOTHING if value is None else f"{round(100.0 * value, 1) + 0.0:.1f}%"  # never "-0.0%"


def share_of_hundred(value: float) -> str:
    """A share that a person has set, without superfluous decimals: ``90%``, ``97.5%``."""
    return f"{100.0 * value:.4g}%"


def seconds(value: float | None) -> str:
    """A duration in seconds."""
    return _NOTHING if value is None else f"{value:.2f} s" if value < 10.0 else f"{value:.0f} s"


def moment(value: float | None) -> str:
    """A time in UTC, to the minute."""
    if value is None:
        return _NOTHING
    time = datetime.fromtimestamp(value, UTC)
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def named_task(task: int, project: str) -> str:
    """A task as people know it: its number in Label Studio, or the name that a file's columns hold."""
    return str(task) if is_of_label_studio(project) else task_name(task)


def _iso(value: float) -> str:
    """A time in ISO 8601, for machines."""
    return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")


_FILTERS: Mapping[str, Callable[..., str]] = {
    "count": count,
    "dollars": dollars,
    "iso": _iso,
    "kind_of_tasks": _kind_of_tasks,
    "moment": moment,
    "named_task": named_task,
    "of": of,
    "percent": percent,
    "seconds": seconds,
    "share_of_hundred": share_of_hundred,
}
"""The same words for templates."""


def templates(
    package: str, folder: str, *, markdown: bool = False, **filters: Callable[..., object]
) -> Environment:
    """Return the templates of a package, which write numbers in these words.

    A variable that is not given is an error.

    Args:
        package: its name.
        folder: its folder with the templates.
        markdown: whether the templates are Markdown, in which nothing is escaped, and not HTML.
        filters: further filters by name.
    """
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=not markdown,  # noqa: S701 - on for HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=markdown,
    )
    environment.filters |= {**_FILTERS, **filters}
    return environment
