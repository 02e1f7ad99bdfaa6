"""The n-grams of a deleted task's text are replaced by their seal, in place.

No table changes. The number keeps versions away that could not read a seal.
"""

from __future__ import annotations

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
