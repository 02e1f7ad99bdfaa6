"""Table: a JSON object as lines of plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping


def lines(content: object) -> str | None:
    """The data of a Table as lines ``key: value``; ``None`` if it is none.

    As in the editor, the keys of an object are sorted whatever their letter case, and a list that begins with
    an object is rows, which here stand apart by a blank line. Any other list has its indices for keys. A
    string is left as it is: CSV, for one.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Mapping):
        return "\n".join(_line(key, content[key]) for key in sorted(content, key=str.lower))
    if not isinstance(content, list):
        return None
    if content and isinstance(content[0], Mapping):
        rows = [row for row in content if isinstance(row, Mapping)]
        return "\n\n".join("\n".join(_line(key, row[key]) for key in row) for row in rows)
    return "\n".join(_line(str(index), value) for index, value in enumerate(content))


def _line(key: str, value: object) -> str:
    return f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
