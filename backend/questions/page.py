"""The words of a label config's page: what annotators read beside the data, in the order of the page.

Captions (Header, Markdown, Panel), objects with constant words, the title of a List and the placeholder of a
TextArea or a Taxonomy. Words are instructions, and the variables among them are fields.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from backend.questions.objects import locate_html, storable_text
from backend.questions.visibility import sight_of
from backend.questions.xml import CAPTIONS, VARIABLE, Element, Tree, attribute, shown_value


@dataclass(frozen=True, slots=True)
class Words:
    """Words of the page.

    Attributes:
        place: where they stand: their element's place in the config.
        text: the words; ``$name`` stands for the text of a field.
    """

    place: int
    text: str


_OBJECTS = frozenset({"text", "hypertext"})
_ATTRIBUTES = {"list": "title", "textarea": "placeholder", "taxonomy": "placeholder"}
_OWN = frozenset({"textarea", "taxonomy"})
"""Tags whose words are about themselves alone."""


@lru_cache(maxsize=4)
def all_words(tree: Tree) -> Sequence[tuple[Element, Words]]:
    """Return all words of a label config, hidden ones too, each with its element."""
    return tuple(_all_words(tree))


def _all_words(tree: Tree) -> Iterator[tuple[Element, Words]]:
    for element, place in tree.places.items():
        name = str(element.tag).lower()
        if name in CAPTIONS or name in _OBJECTS:
            words = shown_value(element)
        elif name in _ATTRIBUTES:
            words = attribute(element, _ATTRIBUTES[name]) or ""
        else:
            continue
        if name == "hypertext":
            words = locate_html(words).text
        if re.search(r"\w", VARIABLE.sub("", words)) and not VARIABLE.fullmatch(words.strip()):
            yield element, Words(place, storable_text(words).strip())


def words_for(control: Element, tree: Tree) -> tuple[Words, ...]:
    """Return the words that annotators read whenever they see a control, in the order of the page.

    Words inside another control, such as a Header among its choices, are left out.
    """
    found = _words_by_control(tree)[1].get(control, ())
    shared = _words_within(tree, sight_of(tree).restrictions(control))
    return tuple(sorted((*shared, *found), key=lambda words: words.place)) if found else shared


@lru_cache(maxsize=4)
def _words_by_control(
    tree: Tree,
) -> tuple[tuple[tuple[Element, Words], ...], dict[Element, tuple[Words, ...]]]:
    """The visible words outside controls, each with its element, and those inside each control."""
    controls, sight = set(tree.controls), sight_of(tree)
    outside: list[tuple[Element, Words]] = []
    inside: dict[Element, tuple[Words, ...]] = {}
    for element, words in all_words(tree):
        around = [each for each in (element, *element.iterancestors()) if each in controls]
        if sight.never(element) is not None:
            continue
        if not around:
            outside.append((element, words))
        elif sight.restrictions(element) <= sight.restrictions(around[0]):
            inside[around[0]] = (*inside.get(around[0], ()), words)
    return tuple(outside), inside


@lru_cache(maxsize=32)
def _words_within(tree: Tree, restrictions: frozenset[Hashable]) -> tuple[Words, ...]:
    """The words outside controls that are seen under the restrictions of a control."""
    words, sight = _words_by_control(tree)[0], sight_of(tree)
    return tuple(each for element, each in words if sight.restrictions(element) <= restrictions)
