"""The n-grams of a text that teaches the student are stored once, beside the context of its round.

No table changes. The number keeps versions away that could not read such a context.
"""

from __future__ import annotations

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
