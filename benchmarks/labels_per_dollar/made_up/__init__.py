"""Made-up tables of votes: a kind for every way in which tables differ, and for every promise that broke.

    from made_up import KINDS, drawn
    made_up = drawn(KINDS["two biased services of four"], seed=0)  # .table, .confidences, .texts, …

Items differ in difficulty, which correlates the correctness of the models' votes, as in real tables. A wrong
vote names the item's decoy in 60% of the cases and any wrong label otherwise. Unless a kind says more, the
contexts are noise with weak traces of the difficulty and of the right label.
"""

from __future__ import annotations

from made_up import changes, families, pools, short_texts, skills
from made_up.drawing import Kind, MadeUp, drawn

KINDS: dict[str, Kind] = {
    kind.name: kind for module in (pools, families, changes, skills, short_texts) for kind in module.KINDS
}
"""Name → kind."""

__all__ = ["KINDS", "Kind", "MadeUp", "drawn"]
