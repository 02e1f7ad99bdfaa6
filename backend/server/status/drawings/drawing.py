"""From a figure to a drawing on the page. Equal data gives the drawing of before, without drawing again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import matplotlib
from markupsafe import Markup

from backend.charts.style import Picture, style
from backend.charts.svg import inline, svg

SIZE = (3.7, 2.6)
"""Width and height of a drawing in inches: on a screen of 360 pixels its texts have their own size."""

_KEPT = 256


@dataclass(frozen=True, slots=True)
class Drawing:
    """One chart: its heading, the ``<svg>`` element and what it shows, in sentences."""

    heading: str
    svg: Markup
    caption: str


@lru_cache(maxsize=_KEPT)
def drawn(draw: Callable[..., Picture], name: str, *data: Any) -> Drawing:
    """Draw a chart.

    Args:
        draw: returns the picture of ``data``.
        name: unique in the page.
        data: what is drawn, as frozen values.
    """
    # Label names may be in any script: the browser has their fonts, and matplotlib need not.
    with style(), warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        picture = draw(*data)
        element = Markup(inline(svg(picture), name, picture.alt))  # noqa: S704 - drawn text, escaped alt
    return Drawing(picture.heading, element, " ".join(picture.caption))
