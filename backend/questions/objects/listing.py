"""List: items with ids, as plain text. A Ranker orders them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from backend.questions.objects.hypertext import plain_text


def item_ids(content: object) -> list[str] | None:
    """Return the items' ids as strings, in the order of the data; ``None`` if the content is not a List."""
    if not isinstance(content, list):
        return None
    ids = [item.get("id") if isinstance(item, Mapping) else None for item in content]
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in ids):
        return None
    return [str(value) for value in ids]


def list_text(content: object) -> str | None:
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
    return "\n".join(part for part in (title, plain_text(html) if html else body) if part)
