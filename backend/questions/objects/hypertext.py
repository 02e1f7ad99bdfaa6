"""HyperText: HTML as the plain text that a reader sees, with its positions in the browser's document."""

from __future__ import annotations

import re
from functools import lru_cache

from backend.questions.objects.located_text import LocatedText

_BLOCK = re.compile(
    "address|article|aside|blockquote|body|br|caption|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|"
    "footer|form|h[1-6]|header|hr|legend|li|main|nav|ol|option|p|pre|section|summary|table|tr|ul"
)
_CELLS = frozenset({"td", "th"})
_UNSEEN = frozenset({"script", "style", "template", "title"})
_NOT_IN_THE_DOCUMENT = frozenset({"script", "template"})
_FIRST_LINE_FEED_DROPPED = frozenset({"pre", "textarea", "listing"})
_WORD = re.compile(r"[^ \t\n\r\f]+")


def plain_text(html: str) -> str:
    """Return the text of an HTML document or fragment: one line per block, no scripts, no styles."""
    return locate_html(html).text


@lru_cache(maxsize=32)
def locate_html(html: str, *, inline: bool = False) -> LocatedText:
    """Return the text of an HTML document or fragment, with the positions of its characters.

    libxml2 parses the HTML. Python's ``html.parser`` takes minutes for 150 kB of ``"<a <a <a "``, so a task
    could block the server.

    The editor counts positions (``globalOffsets``) in Unicode code points over all text nodes of the body,
    including white space and styles; a ``<br>`` counts as one.

    Args:
        html: the value in the task's data.
        inline: the object tag's attribute. If true, the editor shows the HTML inside its own page. If false,
            it shows a separate document, whose head and leading blanks do not count.
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
