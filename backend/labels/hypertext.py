"""HyperText: HTML as the plain text that a reader sees."""

from __future__ import annotations

import re

_BLOCK = re.compile(
    "address|article|aside|blockquote|body|br|caption|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|"
    "footer|form|h[1-6]|header|hr|legend|li|main|nav|ol|option|p|pre|section|summary|table|tr|ul"
)
_CELLS = frozenset({"td", "th"})
_UNSEEN = frozenset({"script", "style", "template", "title"})
_SPACES = re.compile(r"[ \t\n\r\f]+")


def plain_text(html: str) -> str:
    """The text of an HTML document or fragment: entities decoded, a line a block, no scripts, no styles.

    libxml2 parses it, not ``html.parser``: that one needs minutes for 150 kB of ``"<a <a <a "``, and whoever
    writes the tasks could stop the server with it.
    """
    from lxml import etree  # type: ignore[import-untyped]  # noqa: PLC0415 - imported when the first HTML comes

    parser = etree.HTMLParser(target=_Lines(), encoding="utf-8", huge_tree=True, no_network=True)
    parser.feed(html.replace("\x00", "").encode("utf-8", "replace"))
    return str(parser.close())


class _Lines:
    """What libxml2 calls while it reads: collects the seen text line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._unseen = 0
        self._preformatted = 0

    def start(self, tag: str, _attributes: object) -> None:
        self._separate(tag)
        self._unseen += tag in _UNSEEN
        self._preformatted += tag == "pre"

    def end(self, tag: str) -> None:
        self._separate(tag)
        self._unseen -= tag in _UNSEEN
        self._preformatted -= tag == "pre"

    def data(self, text: str) -> None:
        if self._unseen:
            return
        first, *others = text.split("\n") if self._preformatted else [text]
        self._line.append(first)
        for line in others:
            self._break()
            self._line.append(line)

    def close(self) -> str:
        self._break()
        return "\n".join(self._lines)

    def _separate(self, tag: str) -> None:
        if tag in _CELLS:
            self._line.append(" ")
        elif _BLOCK.fullmatch(tag):
            self._break()

    def _break(self) -> None:
        line = _SPACES.sub(" ", "".join(self._line)).strip()
        if line:
            self._lines.append(line)
        self._line = []
