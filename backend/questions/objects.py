"""Object tags: the text that models read for each of them, and the fields that a control is about."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from html import unescape
from typing import Final

from backend.errors import MissingFieldError
from backend.questions.visibility import sight_of
from backend.questions.xml import CAPTIONS, VARIABLE, Element, Tree, attribute, shown_value, tag_name, targets


@dataclass(frozen=True, slots=True)
class LocatedText:
    """A plain text with Label Studio's position of each character.

    Attributes:
        text: the plain text.
        positions: one position per character, never decreasing. A character that only the plain text has,
            such as the line feed between two blocks of HTML, has the position of the character before it.
        utf16: whether positions count UTF-16 code units, so that characters beyond U+FFFF take two.
        offsets: the offset of each character in the field's plain text; empty if this is the plain text.
        ends: the position after each character; empty if it follows from the character's own.
    """

    text: str
    positions: Sequence[int]
    utf16: bool = False
    offsets: Sequence[int] = ()
    ends: Sequence[int] = ()

    def positions_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the positions of ``text[start:end]``, not empty: the first, and the one after the last."""
        if self.ends:
            return self.positions[start], self.ends[end - 1]
        wide = self.utf16 and self.text[end - 1] > "\uffff"
        return self.positions[start], self.positions[end - 1] + 1 + wide

    def words_between(self, start: int, end: int) -> str:
        """Return the words between two positions."""
        first, after = (bisect_left(self.positions, position) for position in (start, end))
        return self.text[first:after].strip()


_BLOCK = re.compile(
    "address|article|aside|blockquote|body|br|caption|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|"
    "footer|form|h[1-6]|header|hr|legend|li|main|nav|ol|option|p|pre|section|summary|table|tr|ul"
)
_CELLS = frozenset({"td", "th"})
_UNSEEN = frozenset({"script", "style", "template", "title"})
_NOT_IN_THE_DOCUMENT = frozenset({"script", "template"})
_FIRST_LINE_FEED_DROPPED = frozenset({"pre", "textarea", "listing"})
_WORD = re.compile(r"[^ \t\n\r\f]+")


def _plain_text(written: str) -> str:
    """Return the text of an HTML document or fragment: one line per block, no scripts, no styles."""
    return locate_html(written).text


_TAG = re.compile(r"<[a-zA-Z!/]")
_ITEM = re.compile(r"(<li\b[^>]*>)", re.IGNORECASE)


FOR_PEOPLE_ONLY: Final = "Models do not read on from here."
"""What follows this sentence in a project's instructions is for annotators alone."""


def split_instructions(written: str) -> tuple[str, str]:
    """Divide a project's instructions into what models read, and the HTML that is for annotators alone.

    The second part begins with the tag before :data:`FOR_PEOPLE_ONLY`; it is empty without that sentence.
    """
    at = written.find(FOR_PEOPLE_ONLY)
    if at < 0:
        return written, ""
    before = written[:at].rstrip()
    start = before.rfind("<") if before.endswith(">") else at
    return written[:start], written[start:]


def instructions_text(written: str) -> str:
    """Return a project's labelling instructions as plain text, as models read them.

    They are HTML in Label Studio. Each block is a line, each item of a list begins with a dash, and empty
    lines go. A text without any tag keeps its lines as they are. What is for annotators alone is left out
    (:func:`split_instructions`).
    """
    written, _ = split_instructions(written)
    if not _TAG.search(written):
        return unescape(written).replace("\r\n", "\n").strip()
    lines = (line.strip() for line in _plain_text(_ITEM.sub(r"\1- ", written)).split("\n"))
    text = "\n".join(line for line in lines if line)
    return re.sub(r"^-\n", "- ", text, flags=re.MULTILINE)  # a block within an item


@lru_cache(maxsize=32)
def locate_html(html: str, *, inline: bool = False) -> LocatedText:
    """Return the text of an HTML document or fragment, with the positions of its characters.

    libxml2 parses the HTML. Python's ``html.parser`` takes minutes for 150 kB of ``"<a <a <a "``, so a task
    could block the server.

    The editor counts positions (``globalOffsets``) in Unicode code points over all text nodes of the body,
    including white space and styles; a ``<br>`` counts as one.
    """
    from lxml import etree  # type: ignore[import-untyped]  # noqa: PLC0415 - only needed for HTML

    parser = etree.HTMLParser(target=_VisibleText(), encoding="utf-8", huge_tree=True, no_network=True)
    whole = f"<body><div>{html}" if inline else html
    parser.feed(whole.replace("\x00", "").encode("utf-8", "replace"))
    located: LocatedText = parser.close()
    return located


class _VisibleText:
    """The target of libxml2's parser: collects the visible text line by line."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._positions: list[int] = []
        self._line: list[str] = []
        self._line_positions: list[int] = []
        self._unseen = 0
        self._preformatted = 0
        self._outside = 0
        self._in_body = False
        self._opened: str | None = None
        self._position = 0

    def start(self, tag: str, _attributes: object) -> None:
        self._separate(tag)
        self._in_body |= tag == "body"
        self._unseen += tag in _UNSEEN
        self._outside += tag in _NOT_IN_THE_DOCUMENT
        self._preformatted += tag == "pre"
        self._position += self._in_body and tag == "br"
        self._opened = tag

    def end(self, tag: str) -> None:
        self._separate(tag)
        self._unseen -= tag in _UNSEEN
        self._outside -= tag in _NOT_IN_THE_DOCUMENT
        self._preformatted -= tag == "pre"
        self._opened = None

    def data(self, text: str) -> None:
        if self._opened in _FIRST_LINE_FEED_DROPPED:
            text = text.removeprefix("\n")
        self._opened = None
        if not self._unseen:
            first, *others = text.split("\n") if self._preformatted else [text]
            self._add(first, self._position)
            position = self._position + len(first)
            for line in others:
                self._break()
                self._add(line, position + 1)
                position += 1 + len(line)
        if self._in_body and not self._outside:
            self._position += len(text)

    def close(self) -> LocatedText:
        self._break()
        return LocatedText("".join(self._text), self._positions)

    def _add(self, text: str, position: int) -> None:
        self._line.append(text)
        self._line_positions.extend(range(position, position + len(text)))

    def _separate(self, tag: str) -> None:
        if tag in _CELLS:
            self._line.append(" ")
            self._line_positions.append(self._position)
        elif _BLOCK.fullmatch(tag):
            self._break()

    def _break(self) -> None:
        """End a line: write it with single spaces between words, after a line feed. Skip a blank line."""
        line, positions = "".join(self._line), self._line_positions
        self._line, self._line_positions = [], []
        separator = "\n" if self._text else ""
        for word in _WORD.finditer(line):
            if separator:
                self._text.append(separator)
                self._positions.append(self._positions[-1])
            self._text.append(word[0])
            self._positions.extend(positions[word.start() : word.end()])
            separator = " "


def item_ids(content: object) -> list[str] | None:
    """Return the items' ids as strings, in the order of the data; ``None`` if the content is not a List."""
    if not isinstance(content, list):
        return None
    ids = [item.get("id") if isinstance(item, Mapping) else None for item in content]
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in ids):
        return None
    return [str(value) for value in ids]


def _list_text(content: object) -> str | None:
    """Return a line ``"id": text`` for every item, as the editor shows it; ``None`` if this is not a List."""
    ids = item_ids(content)
    if ids is None or not isinstance(content, list):
        return None
    return "\n".join(
        f"{json.dumps(item_id, ensure_ascii=False)}: {_item_text(item)}"
        for item_id, item in zip(ids, content, strict=True)
    )


def _item_text(item: Mapping[str, object]) -> str:
    title, body, html = (str(item.get(key) or "") for key in ("title", "body", "html"))
    return "\n".join(part for part in (title, _plain_text(html) if html else body) if part)


STRIDE = 1 << 24
"""The number of positions reserved for each line of a dialogue, far more than any line needs."""


def _dialogue_text(content: object, name_key: str, text_key: str) -> str | None:
    """Return the data of a Paragraphs as lines ``name: text``; ``None`` if it is not a dialogue."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        return None
    lines = [_line(item, name_key, text_key) for item in content]
    return None if None in lines else "\n".join(line for line in lines if line)


def locate_dialogue(content: object, name_key: str, text_key: str) -> LocatedText:
    """Return the words of a dialogue, one line per entry, without the speakers' names.

    The editor counts UTF-16 code units and starts again in every line. A position is ``STRIDE`` times the
    line's index, plus that count.
    """
    texts: list[str] = []
    positions: list[int] = []
    offsets: list[int] = []
    line_start = 0
    for index, item in enumerate(content if isinstance(content, Sequence) else ()):
        words = _words(item, text_key) if isinstance(item, Mapping) else ""
        line = _line(item, name_key, text_key) or ""
        # The plain text has no line for an empty entry, whose line feed here is that of the line before.
        offset = line_start + _storable_length(line) - _storable_length(words) if line else line_start - 1
        texts.append(words)
        position = index * STRIDE
        for character in words:
            positions.append(position)
            offsets.append(offset)
            position += 1 + (character > "\uffff")
            offset += character != "\x00"
        positions.append(position)
        offsets.append(offset)
        if line:
            line_start = offset + 1
    return LocatedText("\n".join(texts), positions, utf16=True, offsets=offsets)


def _storable_length(text: str) -> int:
    """The length of the text in a prompt, which has no NUL."""
    return len(text) - text.count("\x00")


def _line(item: object, name_key: str, text_key: str) -> str | None:
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        return None
    name, text = _words(item, name_key), _words(item, text_key)
    return f"{name}: {text}" if name else text


def _words(item: Mapping[str, object], key: str) -> str:
    return str(item[key]) if item.get(key) is not None else ""


def _table_text(content: object) -> str | None:
    """Return the data of a Table as lines ``key: value``; ``None`` if it is not a table."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping):
        return "\n".join(_table_line(key, content[key]) for key in sorted(content, key=str.lower))
    if not isinstance(content, list):
        return None
    if content and isinstance(content[0], Mapping):
        rows = [row for row in content if isinstance(row, Mapping)]
        return "\n\n".join("\n".join(_table_line(key, row[key]) for key in row) for row in rows)
    return "\n".join(_table_line(str(index), value) for index, value in enumerate(content))


def _table_line(key: str, value: object) -> str:
    return f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


IMAGE = "Image"
"""The object tag whose data is the address of an image; models are shown the image."""

TAGS = ("Text", "HyperText", "Paragraphs", "List", "Table", "Chat", IMAGE)
"""The object tags that can be shown to models."""

_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Field:
    """A key of the task's data and the object tag that shows it.

    Attributes:
        key: the key of the task's data; may be a path such as ``a.b[0]``.
        tag: one of ``TAGS``.
        name: the object tag's name.
        name_key: for Paragraphs and Chat, the key of a line's speaker.
        text_key: for Paragraphs and Chat, the key of a line's words.
        place: where its object stands on the page; it does not tell fields apart.
        optional: whether a task may lack the key: it is a variable among words, or in a caption, and Label
            Studio imports and shows the task without it. Models are shown a blank field then.
    """

    key: str
    tag: str
    name: str
    name_key: str = "author"
    text_key: str = "text"
    optional: bool = False
    place: int = field(default=0, compare=False)

    @property
    def where(self) -> str:
        """The location that errors about this field name."""
        return f"data.{self.key}"

    def content(self, data: Mapping[str, object]) -> object:
        """Return the field's value in the task's data."""
        content = look_up(data, self.key)
        if content is ABSENT:
            raise MissingFieldError(
                "the task's data lacks a key that the label config reads",
                where=self.where,
                fix="import the task with this key, or change the label config",
            )
        return content

    def is_absent(self, data: Mapping[str, object]) -> bool:
        """Return whether the task's data lacks the field, and may lack it."""
        return self.optional and look_up(data, self.key) is ABSENT

    def text(self, data: Mapping[str, object]) -> str:
        """Return the field's plain text, which may be blank; for an image, its address.

        Raises:
            MissingFieldError: the task's data lacks the key, or holds no text there.
        """
        content = self.content(data)
        self._require_words(content)
        match self.tag:
            case "Paragraphs" | "Chat":
                text, expected = _dialogue_text(content, self.name_key, self.text_key), "a list of objects"
            case "List":
                text, expected = _list_text(content), "a list of objects, each with an id"
            case "Table":
                text, expected = _table_text(content), "an object or a list"
            case _:
                text, expected = scalar_text(content), "a string"
                text = _listed_text(content) if text is None and self.optional else text
        if text is None:
            raise MissingFieldError(
                f"the task's data holds a {type(content).__name__} here, which is not text",
                where=self.where,
                fix=f"a {self.tag} needs {expected}",
            )
        return storable_text(_plain_text(text) if self.tag == "HyperText" else text)

    def _require_words(self, content: object) -> None:
        """Refuse a dialogue in which no entry has the key of the words: the editor would show nothing."""
        if self.tag not in _LINE_KEYS or not isinstance(content, list):
            return
        entries = [entry for entry in content if isinstance(entry, Mapping)]
        if entries and len(entries) == len(content) and not any(self.text_key in entry for entry in entries):
            keys = ", ".join(map(repr, sorted({str(key) for entry in entries[:20] for key in entry})[:8]))
            raise MissingFieldError(
                f"no entry of the dialogue has the key {self.text_key!r}; its keys are {keys or 'none'}",
                where=self.where,
                fix=f"set textKey (and nameKey) of the {self.tag} in the label config to the data's keys",
            )


def in_page_order(fields: Iterable[Field]) -> list[Field]:
    """Return fields in the order in which annotators see them."""
    return sorted(fields, key=lambda each: each.place)


def scalar_text(content: object) -> str | None:
    """Return a JSON string, number, boolean or null as the editor shows it; ``None`` for anything else."""
    if content is None:
        return ""
    if isinstance(content, bool):
        return str(content).lower()
    return str(content) if isinstance(content, str | int | float) else None


def _listed_text(content: object) -> str | None:
    """Return a list of texts as one line; ``None`` for anything else."""
    parts = [scalar_text(each) for each in content] if isinstance(content, list) else [None]
    return None if None in parts else ", ".join(filter(None, parts))


ABSENT: Final = object()
"""Stands for a value that is not there; ``None`` may be one."""


def look_up(data: object, key: str) -> object:
    """Return the value under a key, or under a path such as ``a.b[0]`` if no key has exactly this name.

    The editor resolves a ``$variable`` in the same way.
    """
    if isinstance(data, Mapping) and key in data:
        return data[key]
    for step in _STEP.findall(key):
        if isinstance(data, Mapping) and step in data:
            data = data[step]
        elif (
            isinstance(data, Sequence)
            and not isinstance(data, str)
            and step.isdecimal()
            and int(step) < len(data)
        ):
            data = data[int(step)]
        else:
            return ABSENT
    return data


def storable_text(text: str) -> str:
    """Remove NUL and replace lone surrogates: JSON allows them, but providers and databases refuse them."""
    return text.replace("\x00", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_VARIABLE = re.compile(r"\$([^\s,${}]+)")
_TAGS = {tag.lower(): tag for tag in TAGS}
_WORDED = frozenset({"text", "hypertext"}) | CAPTIONS
"""Tags that may have words around their variables."""

_LINE_KEYS = {"Paragraphs": ("author", "text"), "Chat": ("role", "content")}
"""Object tag → the default keys of a dialogue line's speaker and words."""


def question_fields(control: Element, tree: Tree) -> tuple[Field, ...]:
    """Return the fields that a control's question is about, one per key.

    The objects that the control is attached to come first. Then follow, in document order, the objects that
    no control is attached to, such as the title of an article. Unattached images are left out, because they
    would exclude all models without vision.

    The variables of Headers, Markdowns and Panels come last. What annotators can never see, or not whenever
    they see the control, is left out.

    The attribute ``camvo_fields="a,b"`` lists the keys instead. A key that no object shows is read as Text.
    """
    chosen = [key.strip() for key in (attribute(control, "camvo_fields") or "").split(",") if key.strip()]
    if chosen:
        known = _by_key([tree.objects[name] for name in (*targets(control), *tree.objects)], tree)
        listed = [known.get(key) or Field(key, "Text", key) for key in dict.fromkeys(chosen)]
        return tuple(replace(each, place=tree.places[control]) for each in listed)
    sight = sight_of(tree)
    attached = [tree.objects[name] for name in targets(control) if name in tree.objects]
    labelled = _by_key([element for element in attached if sight.never(element) is None], tree)
    return tuple((labelled | _beside(tree, sight.restrictions(control)) | labelled).values())


@lru_cache(maxsize=32)
def _beside(tree: Tree, restrictions: frozenset[Hashable]) -> dict[str, Field]:
    """The fields that no control is attached to, by key, of those seen under a control's restrictions."""
    sight = sight_of(tree)
    unattached = [
        element
        for name, element in tree.objects.items()
        if name not in tree.attached and tag_name(element) != IMAGE.lower()
    ]
    seen = [
        element
        for element in (*unattached, *tree.captions)
        if sight.never(element) is None and sight.restrictions(element) <= restrictions
    ]
    return _by_key(seen, tree)


def shown_keys(tree: Tree) -> Iterator[tuple[Element, list[str]]]:
    """Yield the objects and captions of a config, each with the keys of the task's data that it shows."""
    for element in (*tree.objects.values(), *tree.captions):
        whole = _VARIABLE.fullmatch(
            (attribute(element, "value") or attribute(element, "valueList") or "").strip()
        )
        yield element, [whole[1]] if whole else VARIABLE.findall(shown_value(element))


def object_obstacle(element: Element) -> str | None:
    """Return why an object's content cannot be read from the task's data, or ``None``."""
    if tag_name(element) not in _TAGS:
        return f"{element.tag} is not supported yet"
    if attribute(element, "valueList"):
        return "several images in one tag are not supported yet"
    if tag_name(element) != IMAGE.lower() and "url" in (attribute(element, "valueType") or "").lower():
        return "a text behind a URL is not supported yet"
    encoding = (attribute(element, "encoding") or "none").lower()
    return None if encoding == "none" else f"text encoded as {encoding} is not supported yet"


def _by_key(elements: Iterable[Element], tree: Tree) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for element in elements:
        whole = field_of_object(element)
        among = _fields_among_words(element, tree) if whole is None and tag_name(element) in _WORDED else []
        for each in among if whole is None else [replace(whole, place=tree.places[element])]:
            fields.setdefault(each.key, each)
    return fields


def _fields_among_words(element: Element, tree: Tree) -> list[Field]:
    """Return a Text field for every variable in a value such as ``"Question: $question"``."""
    if tag_name(element) in _TAGS and object_obstacle(element):
        return []
    name, place = element.get("name"), tree.places[element]
    return [
        Field(key, "Text", str(name or key), optional=True, place=place)
        for key in VARIABLE.findall(shown_value(element))
    ]


def field_of_object(element: Element) -> Field | None:
    """Return the field that an object tag shows; ``None`` if its content is constant or cannot be read."""
    variable = _VARIABLE.fullmatch((attribute(element, "value") or "").strip())
    if variable is None or object_obstacle(element):
        return None
    tag = _TAGS[tag_name(element)]
    name_key, text_key = _LINE_KEYS.get(tag, _LINE_KEYS["Paragraphs"])
    return Field(
        key=variable[1],
        tag=tag,
        name=str(element.get("name")),
        name_key=attribute(element, "nameKey") or name_key,
        text_key=attribute(element, "textKey") or text_key,
    )
