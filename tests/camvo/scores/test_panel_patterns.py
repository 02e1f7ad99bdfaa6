from __future__ import annotations

import numpy as np

from camvo.scores.scorer import _tabulate_patterns


def test_a_pattern_holds_which_voters_agreed_but_not_the_labels():
    table = _tabulate_patterns(np.array([[3, 1, 1, -1], [0, 2, 2, -1], [1, 1, 0, 0], [-1, -1, -1, -1]]))
    np.testing.assert_array_equal(
        table.rows[table.index], [[1, 0, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [-1, -1, -1, -1]]
    )
    np.testing.assert_array_equal(table.counts[table.index], [2, 2, 1, 1])
    np.testing.assert_array_equal(
        table.ranked, [[1, 3, -1, -1], [2, 0, -1, -1], [1, 0, -1, -1], [-1, -1, -1, -1]]
    )
