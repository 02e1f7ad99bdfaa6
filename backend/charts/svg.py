"""Pictures as SVG: as a file, and as an element of the page with the page's colours."""

from __future__ import annotations

import io
import re

import matplotlib
from markupsafe import escape

from backend.charts.style import THEMED, Picture

_DECIMALS = re.compile(r"(\.\d\d)\d+")
"""Decimals beyond a hundredth of a point, which no screen shows and which double a file's size."""


def svg(picture: Picture) -> str:
    """Return a picture as an SVG document, with its layout settled; the same picture gives the same text.

    Call it within :func:`backend.charts.style.style`.
    """
    picture.figure.draw_without_rendering()
    picture.figure.set_layout_engine("none")
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": picture.name}):
        picture.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r' d="[^"]*"', lambda path: _DECIMALS.sub(r"\1", path[0]), file.getvalue())


def inline(document: str, name: str, alt: str) -> str:
    """Return a document's ``<svg>`` element for use in a page beside others.

    Its ids begin with ``name``. It has no size of its own. Its colours are the page's ``--paper``, ``--ink``,
    …, with the document's as fallback.

    Args:
        document: the result of :func:`svg`.
        name: a name that is unique in the page.
        alt: the alternative text, plain.
    """
    element = document[document.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", element, flags=re.DOTALL)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'href="#', f'href="#{name}-', element)
    element = element.replace("url(#", f"url(#{name}-")
    for colour, role in THEMED.items():
        element = element.replace(colour, f"var(--{role}, {colour})")
    opening = re.compile(r'<svg\b[^>]*(viewBox="[^"]*")[^>]*>')
    return opening.sub(
        lambda match: f'<svg {match[1]} role="img" aria-label="{escape(alt)}">', element, count=1
    )
