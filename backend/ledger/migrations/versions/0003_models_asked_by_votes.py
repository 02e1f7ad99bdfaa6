"""Models that were asked because of other votes were asked where it is hard: such votes are left out."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_DIALECTS = {
    "sqlite": {
        "first": "json_extract(rounds.plan, '$.stages.first')",
        "order": "json_array_length(rounds.plan, '$.stages.order')",
        "later": "SELECT one.value FROM json_each(rounds.plan, '$.stages.order') AS one "
        "WHERE one.key >= {first}",
    },
    "postgresql": {
        "first": "CAST(rounds.plan -> 'stages' ->> 'first' AS INTEGER)",
        "order": "json_array_length(rounds.plan -> 'stages' -> 'order')",
        "later": "SELECT one.value FROM json_array_elements_text(rounds.plan -> 'stages' -> 'order') "
        "WITH ORDINALITY AS one (value, place) WHERE one.place > {first}",
    },
}


def upgrade() -> None:
    sql = _DIALECTS[op.get_bind().dialect.name]
    of_round = "SELECT 1 FROM rounds WHERE rounds.id = votes.round_id"
    op.execute(
        f"UPDATE votes SET agreed = NULL WHERE EXISTS ({of_round} AND {sql['first']} < {sql['order']})"  # noqa: S608
    )
    later = sql["later"].format(first=sql["first"])
    op.execute(f"UPDATE votes SET confirmed = NULL WHERE EXISTS ({of_round} AND votes.model IN ({later}))")  # noqa: S608
