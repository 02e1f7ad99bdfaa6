"""What the built-in redactor finds and misses, as docs/redaction.md says. All data is made up or reserved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.questions.personal_data import _redact
from backend.questions.redaction import Redactor

PAGE = (Path(__file__).parents[3] / "docs" / "redaction.md").read_text("utf-8")


def redacted(text: str) -> str:
    return Redactor("ours", _redact).redact({"text": text})["text"].text


def table(heading: str) -> list[tuple[str, str]]:
    """The rows of one of the page's tables: a text, and what becomes of it."""
    section = PAGE.split(f"### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(("text", "expected"), table("Found"))
def test_the_page_says_what_is_found(text: str, expected: str) -> None:
    assert redacted(text) == expected != text


@pytest.mark.parametrize("text", [text for text, _ in table("Missed")])
def test_the_page_says_what_is_missed(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(("text", "expected"), table("Replaced although it should not be"))
def test_the_page_says_what_is_replaced_by_mistake(text: str, expected: str) -> None:
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "It cost 1,234.56 dollars in 2026.",
        "Version 1.2.3 of 2026-11-22 at 12:45:30.",
        "Order 12345 came on 03/04/2026.",
        "The score was 3:2, then 10:9:8.",
        "ISBN 978-3-16-148410-0 is a book.",
        "In 1999 2000 2001 we grew.",
        "Ratio 16:9, a::b in C++.",
        "Coordinates 51.5007, -0.1246.",
        "Model GB82 costs 40.",
        "10.5.3.2.1 is a chapter.",
    ],
)
def test_other_numbers_stay(text: str) -> None:
    assert redacted(text) == text


def test_the_function_on_the_page_is_one() -> None:
    code = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - our own page
    text = "Where is ORD-123456?"
    assert Redactor("page", names["redact"]).redact({"text": text})["text"].text == "Where is <ORDER>?"


def test_parts_that_overlap_are_replaced_together() -> None:
    assert redacted("http://example.org/?tel=+442079460958&mail=a@example.org ok") == "<URL> ok"


@given(st.text(st.sampled_from("a@.+0442079 :/-GB82WEST\n😀<>٣"), max_size=60))
def test_any_text_can_be_redacted(text: str) -> None:
    redacted(text)
