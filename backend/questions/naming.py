"""The label that words name, as a model or a person writes them. Words that fit several labels name none.

Words are read ever more loosely until they fit a label: exactly, without regard to letter case, and then
without regard to Unicode forms, entities, kinds of hyphens and quotes, and emphasis, then as numbers. The
first reading that fits decides, so a label that differs from another only in such details is named exactly.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final

from backend.questions.xml import Label

_QUOTES: Final = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”",
    "„": "“",
    "‘": "’",
    "«": "»",
    "「": "」",
    "『": "』",
    "【": "】",
    "《": "》",
}
_FENCE: Final = "```"
_LANGUAGE: Final = re.compile(r"[\w+-]*")
_EDGES: Final = " \t\r\n*_`~\"'.,:;!。、،؛।"
_PLAIN: Final = str.maketrans({**dict.fromkeys("’‘‛´`", "'"), **dict.fromkeys("“”„«»", '"'), "−": "-"})
# A separator begins where its blanks begin, or each blank of a long run would be tried as the first.
_STEPS: Final = re.compile(r"(?<!\s)\s*(?:/|>|→|»|::|:(?=\s)|\||\\)\s*")
_COLON: Final = re.compile(r":(?=\s)")
_PARTS: Final = re.compile(r"(?<!\s)\s*[,;|\n]\s*(?:(?:and|&)\s)?")
_AND: Final = re.compile(r"(?<!\s)\s+(?:and|&)\s+")
_JOINTS: Final = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
_ITEM: Final = re.compile(r"\s*(?:[-*+•>#]{1,6}|\(?\d{1,2}[.)])\s+(?=\S)")
_SET: Final = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_NUMBER: Final = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_FLAGS: Final = {"true": True, "yes": True, "false": False, "no": False}
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z]?[a-z\d_ -]{1,40}>")
_SHARE: Final = re.compile(
    r"(?<!\s)\s*\((?:[a-z]{4,11}[:=]?\s*)?(?:0?\.\d+|1\.0+|\d{1,3}(?:\.\d+)?\s?%)\)\Z", re.IGNORECASE
)
"""A probability in brackets behind a label."""

_BRACKETED: Final = re.compile(r"[(\[]([^()\[\]]+)[)\]]")
_LETTERS: Final = re.compile(r"[^\W\d_]{1,2}")
_OPTION: Final = re.compile(r"\(?([^\W\d_]{1,2})[).:](?:\s+(.*))?", re.DOTALL)
_WORD: Final = re.compile(r"\w+")

_VARIANTS: Final = "\ufe0e\ufe0f"
"""Invisible characters that say how an emoji is drawn."""

_NONE: Final = frozenset({"none", "none of these", "none of them", "none of the above"})

GENERIC: Final = frozenset(
    {"answer", "label", "labels", "result", "output", "response", "value", "choice", "choices", "category"}
    | {"categories", "class", "classification", "prediction", "final_answer"}
)
"""Keys, in lower case, under which models put an answer when they do not use the question's name."""


_SAFE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")


@lru_cache(maxsize=1024)
def answer_key(name: str) -> str:
    """Return the key of a question's answer: its name, or one like it that every provider takes in a schema.

    >>> answer_key("mood")
    'mood'
    >>> answer_key("Thème (1)")
    'Th_me_1_fd01f8f0'
    """
    if _SAFE.fullmatch(name):
        return name
    digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_UNSAFE.sub('_', name)[:48].strip('_')}_{digits}"


def is_placeholder(words: str) -> bool:
    """Return whether words stand for an answer in its form; redaction writes capitals in such brackets.

    >>> is_placeholder("<short answer>"), is_placeholder("<PERSON>")
    (True, False)
    """
    return _PLACEHOLDER.fullmatch(words) is not None


def usual_entries(said: Mapping[str, object]) -> list[object]:
    """Return what an object has under the keys of :data:`GENERIC`."""
    return [entry for key, entry in said.items() if str(key).casefold() in GENERIC]


def label_named(labels: Sequence[Label], said: object) -> str | None:
    """Return the ``Label.value`` that an answer names; ``None`` if it fits no label, or several.

    Args:
        labels: the labels.
        said: words, or another JSON value: a number, boolean or null that spells a label, an array with one
            label (or with the steps of one path), an object that holds the label under a usual key, or in
            which one label is true.
    """
    match said:
        case str():
            if (exact := _index(tuple(labels))[0].get(said)) is not None:
                return exact  # as most models write it
            forms = unwrapped(said)
            bare = _undressed(labels, forms[-1])
            named = _named(tuple(labels), forms)
            return _named(tuple(labels), unwrapped(bare)) if named is None and bare is not None else named
        case list():
            same = {label_named(labels, each) for each in said} if _repeats(said) else {None}
            steps = all(isinstance(step, str) for step in said) and any(label.path for label in labels)
            joined = _index(tuple(labels))[5].get(_path("/".join(said))) if len(said) > 1 and steps else None
            return joined or (same.pop() if len(same) == 1 else None)
        case dict():
            return label_named(labels, inner) if (inner := _inner(labels, said)) is not None else None
        case _:
            return _named(tuple(labels), [*_spellings(said)])


def _undressed(labels: Sequence[Label], words: str) -> str | None:
    """Words without a probability or brackets around them, or the letter before an option's text."""
    if (without := _SHARE.sub("", words)) != words:
        return without
    if (bracketed := _BRACKETED.fullmatch(words)) is not None:
        return bracketed[1]
    letters = [label.text for label in labels]
    option = _OPTION.fullmatch(words) if all(map(_LETTERS.fullmatch, letters)) else None
    if option is None or any(
        word in letters and word != option[1] for word in _WORD.findall(option[2] or "")
    ):
        return None
    return option[1]


def labels_named(labels: Sequence[Label], said: object) -> list[str] | None:
    """Return the labels that an answer about several of them names; ``None`` if it says nothing about them.

    An unknown label costs only itself, unless the answer names no other.

    Args:
        labels: the labels.
        said: a JSON value: an array, or an object in which labels are true or false, or yes or no. Words name
            one label, or several with commas between them, or ``none``.
    """
    match said:
        case str():
            return _labels_in_words(labels, said)
        case dict():
            return _labels_in_object(labels, said)
        case [str(words)]:
            return _labels_in_words(labels, words)
        case list():
            return _known(labels, said) if said else []
        case _:
            return None if (label := label_named(labels, said)) is None else [label]


def _labels_in_object(labels: Sequence[Label], said: Mapping[str, object]) -> list[str] | None:
    chosen = _flagged(labels, said)
    if chosen is not None:
        return _known(labels, chosen) if chosen else []
    if (inner := _inner(labels, said)) is not None:
        return labels_named(labels, inner)
    named = [label_named(labels, path) for path in _paths_in(said)]
    return None if None in named else [label for label in named if label is not None] or None


def _labels_in_words(labels: Sequence[Label], said: str) -> list[str] | None:
    if (label := label_named(labels, said)) is not None:
        return [label]
    form = unwrapped(said)[-1]
    if form[:1] in ("[", "{"):
        try:
            parsed = json.loads(form)
        except (ValueError, RecursionError):
            return _known(labels, form[1:-1].split(",")) if (form[0], form[-1]) == ("[", "]") else None
        return None if isinstance(parsed, str) else labels_named(labels, parsed)
    if _loose(form) in _NONE:
        return []
    parts = [[part] if label_named(labels, part) else _AND.split(part) for part in _PARTS.split(form)]
    named = [label_named(labels, each) for part in parts for each in part]
    return None if None in named else [label for label in named if label is not None]


def _known(labels: Sequence[Label], said: Sequence[object]) -> list[str] | None:
    named = [label for each in said if (label := label_named(labels, each)) is not None]
    return named or None


def _flagged(labels: Sequence[Label], said: Mapping[str, object]) -> list[str] | None:
    """The keys of an object that are true, if all of its values are true or false and a key is a label."""
    flags = {
        key: _FLAGS.get(flag.casefold(), flag) if isinstance(flag, str) else flag
        for key, flag in said.items()
    }
    if not all(isinstance(flag, bool) or flag in (0, 1) for flag in flags.values()):
        return None
    if all(label_named(labels, key) is None for key in flags):
        return None
    return [key for key, flag in flags.items() if flag]


def _inner(labels: Sequence[Label], said: Mapping[str, object]) -> object:
    """The label in an object: under the only usual key, the only key that is true, or one step of a path."""
    if len(usual := usual_entries(said)) == 1:
        return usual[0]
    flagged = _flagged(labels, said)
    if flagged is not None:
        return flagged[0] if len(flagged) == 1 else None
    paths = [*_paths_in(said)] if any(label.path for label in labels) else []
    return _index(tuple(labels))[5].get(_path("/".join(paths[0]))) if len(paths) == 1 else None


def _paths_in(said: object) -> Iterator[list[str]]:
    """The paths of a tree that is written as objects in objects, with words or lists of words in the last."""
    match said:
        case str():
            yield [said]
        case list():
            for each in said:
                yield from _paths_in(each)
        case dict():
            for key, inner in said.items():
                for path in _paths_in(inner):
                    yield [str(key), *path]


def _repeats(said: Sequence[object]) -> bool:
    return len(said) == 1 or (len(said) > 1 and all(each == said[0] for each in said))


def _spellings(said: object) -> Iterator[str]:
    """The words for a JSON value that is no text."""
    match said:
        case None:
            yield from ("null", "none")
        case bool():
            yield str(said).lower()
        case int():
            yield str(said)
        case float():
            if said.is_integer():
                yield str(int(said))
            yield repr(said)


def unwrapped(words: str) -> list[str]:
    """Return the words as they are, then after each wrapping that is removed from the outside.

    Wrappings are white space, a code fence, a pair of quotes (a JSON string is decoded) and a final full
    stop. White space is removed each time, every other wrapping at most once.

    >>> unwrapped('"Yes". ')
    ['"Yes". ', '"Yes".', '"Yes"', 'Yes']
    """
    forms = [words]
    wrappings = [_without_fence, _without_quotes, _without_full_stop]
    while True:  # each wrapping is removed once
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


def _named(labels: tuple[Label, ...], forms: Sequence[str]) -> str | None:
    """The label that one of several forms of the same words names."""
    exact, *looser = _index(labels)
    for form in forms:
        if form in exact:
            return exact[form]
    short = [form for form in forms if len(form) <= _WRAPPED * _longest(labels) + _WRAPPED]
    for index, fold in zip(looser, (_folded, _loose, _joined, _number, _path, _leaf), strict=True):
        for form in short if index else ():
            if (folded := fold(form)) and folded in index:
                named = index[folded]
                return None if fold is _leaf and not _leads_to(form, named, labels, index) else named
    return None


_WRAPPED: Final = 20
"""How many times as long as a label words that name it may be, for entities and invisible characters."""


@lru_cache(maxsize=64)
def _longest(labels: tuple[Label, ...]) -> int:
    return max((len(words) for label in labels for words in (label.text, label.value)), default=0)


@lru_cache(maxsize=64)
def _index(labels: tuple[Label, ...]) -> tuple[Mapping[str, str | None], ...]:
    """For each way of reading: words → the label; ``None`` for words that fit several."""
    exact: dict[str, str | None] = {label.value: label.value for label in labels}
    exact |= {label.text: label.value for label in labels}
    indexes: list[dict[str, str | None]] = [{}, {}, {}, {}, {}, {}]
    for label in labels:
        for words in {label.text, label.value}:
            keys = [_folded(words), _loose(words), _joined(words), _number(words), "", ""]
            if label.path is not None:
                keys[4:] = [_path(words), _leaf(words)]
            for index, key in zip(indexes, keys, strict=True):
                if key:
                    index[key] = label.value if index.get(key, label.value) == label.value else None
    return exact, *indexes


def first_alike(labels: Iterable[str]) -> tuple[str, str] | None:
    """The first two labels that differ only in case or blanks; ``None`` without such.

    People who write a list of labels, or a table of votes, mean one label by both.
    """
    known: dict[str, str] = {}
    for label in labels:
        other = known.setdefault(" ".join(label.split()).casefold(), label)
        if other != label:
            return other, label
    return None


def _folded(text: str) -> str:
    return text.strip().casefold()


def _loose(text: str) -> str:
    """The words without regard to Unicode forms, invisible characters, entities, hyphens and emphasis.

    The sign of an item in a list goes, too, and ``&`` is "and".
    """
    plain = unicodedata.normalize("NFKC", html.unescape(html.unescape(text))).translate(_PLAIN)
    kinds = ((character, unicodedata.category(character)) for character in plain)
    plain = "".join("-" if kind == "Pd" else character for character, kind in kinds if kind != "Cf")
    plain = plain.translate(dict.fromkeys(map(ord, _VARIANTS)))
    plain = _SET.sub(r"\1", _ITEM.sub("", plain, count=1) if _ITEM.match(plain) else plain)
    return " ".join(plain.replace("&", " and ").casefold().split()).strip(_EDGES)


def _joined(text: str) -> str:
    """The words, whatever joins them: blanks, hyphens or underscores; nothing where digits begin."""
    words = _loose(text)
    return "" if words[:1].isdigit() else _JOINTS.sub(" ", words)


def _number(text: str) -> str:
    """A number in one spelling: 1.0 is 1; blank for other words."""
    words = _loose(text)
    return format(Decimal(words).normalize(), "f") if _NUMBER.fullmatch(words) else ""


def _path(text: str) -> str:
    """A path of nested labels, whatever separates its steps."""
    return "/".join(_loose(step) for step in _STEPS.split(text))


def _leaf(text: str) -> str:
    """The last step of a path; nothing after a colon, before which anything may stand."""
    return "" if _COLON.search(text) else _loose(_STEPS.split(text)[-1])


def _leads_to(
    text: str, named: str | None, labels: Sequence[Label], leaves: Mapping[str, str | None]
) -> bool:
    """Whether the steps before the last may lead to a leaf: none is a leaf, a list, or on other paths."""
    nodes = {label.value: {_loose(node) for node in label.path or ()} for label in labels}
    own, known = nodes.get(named or "", set()), set().union(*nodes.values())
    return not any(
        step in leaves
        or (step in known - own)
        or (step not in own and (_PARTS.search(words) or _AND.search(words)))
        for words in _STEPS.split(text)[:-1]
        for step in [_loose(words)]
    )
