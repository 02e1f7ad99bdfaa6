"""A picture as SVG: as a file of its own, and as a part of the page that follows the page's colours."""

from __future__ import annotations

import io
import re

from markupsafe import escape
from matplotlib.figure import Figure

from backend.commands.replay.report.style import THEMED

_DECIMALS = re.compile(r"(\.\d\d)\d+")
"""A hundredth of a point is finer than any screen, and more decimals double the size of a file."""


def svg(figure: Figure) -> str:
    """The figure as an SVG document; the same figure gives the same text."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r' d="[^"]*"', lambda path: _DECIMALS.sub(r"\1", path[0]), file.getvalue())


def inline(document: str, name: str, alt: str) -> str:
    """The ``<svg>`` element of a document, to stand in a page beside others.

    Its ids begin with ``name``, its size is the page's business, and the colours of paper and ink are the
    page's ``--paper``, ``--ink`` … with the document's own to fall back on.

    Args:
        document: as :func:`svg` returns it.
        name: unlike any other picture's in the page.
        alt: what the picture shows, plain text without markup.
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
        lambda found: f'<svg {found[1]} role="img" aria-label="{escape(alt)}">', element, count=1
    )
