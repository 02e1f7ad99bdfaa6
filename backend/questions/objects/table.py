"""Table: a JSON object as lines of plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping


def table_text(content: object) -> str | None:
    """Return the data of a Table as lines ``key: value``; ``None`` if it is not a table.

    As in the editor, an object's keys are sorted without regard to letter case. A list that begins with an
    object is a list of rows, separated here by blank lines. The keys of any other list are its indices. A
    string, such as CSV, is returned unchanged.
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
