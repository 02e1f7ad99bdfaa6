from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.questions.objects import FOR_PEOPLE_ONLY, instructions_text, locate_html

CHROMIUM = [
    ("<p>Hello <b>big</b> world</p>", "Hello big world", "Hello big world"),
    ("  <p>Lead</p>", "Lead", "  Lead"),
    (
        "\n<div>\n  <p>One</p>\n  <p>Two<br>three<br/>four</p>\n</div>\n",
        "\n  One\n  Two↵three↵four\n\n",
        "\n\n  One\n  Two↵three↵four\n\n",
    ),
    (
        "<html>\n<head>\n<title>T</title>\n<style>p{color:red}</style>\n</head>\n<body>\n<p>Body</p>\n</body>\n</html>",
        "\nBody\n\n",
        "\n\nT\np{color:red}\n\n\nBody\n\n",
    ),
    (
        "<!DOCTYPE html>\n<html><head></head><body> <h1>Hi</h1> <p>&amp; y &lt;z&gt; caf&eacute; &nbsp;n",
        " Hi & y <z> café \xa0n",
        "\n Hi & y <z> café \xa0n",
    ),
    ("plain text only, no tags", "plain text only, no tags", "plain text only, no tags"),
    ("<style>p{}</style><p>After style</p>", "After style", "p{}After style"),
    ("<p>a</p><style>b{}</style><p>after</p>", "ab{}after", "ab{}after"),
    ("<p>a</p><script>var x=1;</script><p>after</p>", "aafter", "aafter"),
    ("<table><tr><td>A</td><td>B</td></tr>\n<tr><td>C</td></tr></table>", "AB\nC", "AB\nC"),
    ("<table>\n <tr>\n  <td>A</td>\n </tr>\n</table>", "\n \n  A\n \n", "\n \n  A\n \n"),
    ("<ul>\n<li>one\n<li>two\n</ul>", "\none\ntwo\n", "\none\ntwo\n"),
    ("<pre>\nline1\nline2</pre>", "line1\nline2", "line1\nline2"),
    ("<p>emoji 😀 after</p>", "emoji 😀 after", "emoji 😀 after"),
    ("<p>unclosed <b>bold <i>it</b> x</i> y", "unclosed bold it x y", "unclosed bold it x y"),
    ("<!-- c --><p>a<!-- d -->b</p>", "ab", "ab"),
    ("<p>a &#128512; &notanentity; &copy x</p>", "a 😀 ¬anentity; © x", "a 😀 ¬anentity; © x"),
    ("text before <div>in</div> after", "text before in after", "text before in after"),
    ("<select><option>o1</option><option>o2</option></select><p>x</p>", "o1o2x", "o1o2x"),
    ("<textarea>\nta</textarea><p>x</p>", "tax", "tax"),
    ("<p>x\r\ny\rz</p>", "x\ny\nz", "x\ny\nz"),
    ("<b>lead</b> <i>x</i>\n\n<p>y</p>", "lead x\n\ny", "lead x\n\ny"),
    ("<br>\n<p>x</p>", "↵\nx", "↵\nx"),
    ("<a href='#'>l</a>\n<p>x</p>", "l\nx", "l\nx"),
    ("<table><b>foster</b><tr><td>c</td></tr></table>", "fosterc", "fosterc"),
    ("<p>p<table><tr><td>c</td></tr></table>", "pc", "pc"),
    ("</p>stray<p>x", "strayx", "strayx"),
    ("<div>a</div>   <div>b</div>", "a   b", "a   b"),
    ("<template><p>t</p></template><p>x</p>", "x", "x"),
    ("<body class=x>\n\n  hello", "\n\n  hello", "\n\n  hello"),
    ("<meta charset=utf-8>\n<p>x</p>", "x", "\nx"),
    ("<p>1 < 2 & 3 > 2 a<b c</p>", "1 < 2 & 3 > 2 a", "1 < 2 & 3 > 2 a"),
]
"""HTML, and the text nodes of what Chromium 156 makes of it, joined, ↵ for <br>: as a document of its own
in an iframe, and inside a <div>."""


@pytest.mark.parametrize(("html", "document", "inside"), CHROMIUM, ids=[repr(row[0]) for row in CHROMIUM])
def test_every_seen_character_stands_where_a_browser_has_it(html: str, document: str, inside: str) -> None:
    for inline, nodes in ((False, document), (True, inside)):
        located = locate_html(html, inline=inline)
        assert located.text.strip()
        assert [nodes[position] for position in located.positions if not nodes[position].isspace()]
        for character, position in zip(located.text, located.positions, strict=True):
            assert character.isspace() or nodes[position] == character


@given(st.text(st.sampled_from('ab <>/&;p\n\t"=😀')), st.booleans())
@settings(deadline=None)
def test_any_text_has_a_position_for_each_character_and_they_never_fall(html: str, inline: bool) -> None:
    located = locate_html(html, inline=inline)
    assert len(located.positions) == len(located.text)
    assert list(located.positions) == sorted(located.positions)


@given(st.lists(st.sampled_from(["<p>", "</p>", "<br>", "<b>", "</b>", "one ", "two", "\n", "<td>"])))
@settings(deadline=None)
def test_a_stretch_is_found_again_by_its_positions(parts: list[str]) -> None:
    located = locate_html("".join(parts))
    words = located.text.split()
    for word in words:
        start = located.text.index(word)
        assert located.words_between(*located.positions_of(start, start + len(word))) == word


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", ""),
        ("Glad is glad.\r\n\r\nSad &amp; sorry is sad.", "Glad is glad.\n\nSad & sorry is sad."),
        ("2 < 3 and 4 > 1", "2 < 3 and 4 > 1"),
        ("<p>One</p>\n<p>Two<br>three</p>", "One\nTwo\nthree"),
        ("<ul><li>Glad: a smile</li><li><p>Sad: tears</p></li></ul>", "- Glad: a smile\n- Sad: tears"),
        ("<script>alert(1)</script><style>p {}</style><b>Be kind</b>", "Be kind"),
        ("<a href='https://example.org'>the guide</a> says so", "the guide says so"),
        (f"Be kind.\n\nBe exact.\n<p>{FOR_PEOPLE_ONLY}</p><h2>Codebook</h2>", "Be kind.\n\nBe exact."),
        (f"<p>Be kind.</p><div><b>{FOR_PEOPLE_ONLY}</b></div>Lunch is at 12.", "Be kind."),
        (f"Be kind.\n{FOR_PEOPLE_ONLY}\nLunch is at 12.", "Be kind."),
        (f"<p>{FOR_PEOPLE_ONLY}</p>Lunch is at 12.", ""),
    ],
)
def test_labelling_instructions_become_the_text_that_people_read(written: str, read: str) -> None:
    assert instructions_text(written) == read
