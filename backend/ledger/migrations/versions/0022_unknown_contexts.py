"""Contexts may be unknown, as texts are embedded only where something reads them.

No table changes. The number keeps versions away that could not read such a context.
"""

from __future__ import annotations

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
