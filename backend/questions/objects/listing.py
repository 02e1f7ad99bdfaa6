"""List: items with an id each, as plain text. Rankers order them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from backend.questions.objects.hypertext import plain_text


def ids(content: object) -> list[str] | None:
    """The ids in the order of the data, as strings, as in the editor; ``None`` if it is no List."""
    if not isinstance(content, list):
        return None
    found = [item.get("id") if isinstance(item, Mapping) else None for item in content]
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in found):
        return None
    return [str(one) for one in found]


def text(content: object) -> str | None:
    """Every item as its id, a colon and what the editor shows of it; ``None`` if it is no List."""
    found = ids(content)
    if found is None or not isinstance(content, list):
        return None
    return "\n".join(
        f"{json.dumps(one, ensure_ascii=False)}: {_shown(item)}"
        for one, item in zip(found, content, strict=True)
    )


def _shown(item: Mapping[str, object]) -> str:
    title, body, html = (str(item.get(key) or "") for key in ("title", "body", "html"))
    return "\n".join(part for part in (title, plain_text(html) if html else body) if part)
