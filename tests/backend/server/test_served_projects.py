"""What a server remembers of projects."""

from __future__ import annotations

from backend.server.served_projects import _Latest


def test_what_was_set_last_is_kept_and_no_more() -> None:
    latest = _Latest[int](most=2)
    for number, name in enumerate(("a", "b", "a", "c")):
        latest[name] = number
    assert [latest.get(name) for name in "abc"] == [2, None, 3]
