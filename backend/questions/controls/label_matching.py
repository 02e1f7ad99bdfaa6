"""Match a model's words to a label. Words that fit no label, or several, are not a vote."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from backend.questions.label import Label

_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "‘": "’", "«": "»"}
_FENCE = "```"
_LANGUAGE = re.compile(r"[\w+-]*")


def label_named(labels: Sequence[Label], words: str) -> str | None:
    """Return the ``Label.value`` that ``words`` name; ``None`` if they fit no label, or several.

    Wrappings are removed as in :func:`unwrapped`. An exact match with a visible text wins over one with a
    stored value. Without an exact match, letter case and surrounding blanks are ignored.
    """
    forms = unwrapped(words)
    for form in forms:
        for exact in (
            {label.text: label.value for label in labels},
            {label.value: label.value for label in labels},
        ):
            if form in exact:
                return exact[form]
    for form in forms:
        near = {
            label.value for label in labels if _folded(form) in {_folded(label.text), _folded(label.value)}
        }
        if near:
            return near.pop() if len(near) == 1 else None
    return None


def unwrapped(words: str) -> list[str]:
    """Return the words as they are, then after each wrapping that is removed from the outside.

    Wrappings are white space, a code fence, a pair of quotes (a JSON string is decoded) and a final full
    stop. White space is removed each time, every other wrapping at most once.

    >>> unwrapped('"Yes". ')
    ['"Yes". ', '"Yes".', '"Yes"', 'Yes']
    """
    forms = [words]
    wrappings = [_without_fence, _without_quotes, _without_full_stop]
    while True:
        form = forms[-1].strip()
        if form != forms[-1]:
            forms.append(form)
        for wrapping in wrappings:
            inner = wrapping(form)
            if inner is not None:
                forms.append(inner)
                wrappings.remove(wrapping)
                break
        else:
            return forms


def _without_fence(text: str) -> str | None:
    if len(text) <= 2 * len(_FENCE) or not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return None
    inner = text[len(_FENCE) : -len(_FENCE)]
    language, newline, rest = inner.partition("\n")
    return rest if newline and _LANGUAGE.fullmatch(language.strip()) else inner


def _without_quotes(text: str) -> str | None:
    if len(text) <= 1 or _QUOTES.get(text[0]) != text[-1]:
        return None
    try:
        return str(json.loads(text)) if text[0] == '"' else text[1:-1]
    except ValueError:
        return text[1:-1]


def _without_full_stop(text: str) -> str | None:
    return text[:-1] if text.endswith(".") else None


def _folded(text: str) -> str:
    return text.strip().casefold()
