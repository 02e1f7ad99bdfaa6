"""Which label a model's words name. Strict: words that name no label, or could name two, are no vote."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from backend.questions.label import Label

_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "‘": "’", "«": "»"}
_FENCE = "```"
_LANGUAGE = re.compile(r"[\w+-]*")


def label_named(labels: Sequence[Label], words: str) -> str | None:
    """The ``Label.value`` that ``words`` name, by visible text or stored value; ``None`` for none or several.

    Wrapping is taken off as ``unwrapped`` does. An exact match counts first, and the visible text before the
    stored value; letter case and blanks around a label are forgiven where one label alone then fits.
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
    """The words as they are, then with one wrapping after the other taken off from the outside.

    A wrapping is white space, a code fence, a pair of quotes (a JSON string is decoded) and a final full
    stop, each but the white space at most once.

    >>> unwrapped('"Yes". ')
    ['"Yes". ', '"Yes".', '"Yes"', 'Yes']
    """
    forms = [words]
    wrappings = [_fenced, _quoted, _stopped]
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


def _fenced(text: str) -> str | None:
    if len(text) <= 2 * len(_FENCE) or not (text.startswith(_FENCE) and text.endswith(_FENCE)):
        return None
    inner = text[len(_FENCE) : -len(_FENCE)]
    language, newline, rest = inner.partition("\n")
    return rest if newline and _LANGUAGE.fullmatch(language.strip()) else inner


def _quoted(text: str) -> str | None:
    if len(text) <= 1 or _QUOTES.get(text[0]) != text[-1]:
        return None
    try:
        return str(json.loads(text)) if text[0] == '"' else text[1:-1]
    except ValueError:
        return text[1:-1]


def _stopped(text: str) -> str | None:
    return text[:-1] if text.endswith(".") else None


def _folded(text: str) -> str:
    return text.strip().casefold()
