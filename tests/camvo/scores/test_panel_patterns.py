from __future__ import annotations

import numpy as np

from camvo.scores.panel_patterns import tabulate_patterns


def test_a_pattern_says_who_agreed_and_no_more():
    seen = tabulate_patterns(np.array([[3, 1, 1, -1], [0, 2, 2, -1], [1, 1, 0, 0], [-1, -1, -1, -1]]))
    np.testing.assert_array_equal(
        seen.rows[seen.index], [[1, 0, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [-1, -1, -1, -1]]
    )
    np.testing.assert_array_equal(seen.counts[seen.index], [2, 2, 1, 1])
    np.testing.assert_array_equal(
        seen.ranked, [[1, 3, -1, -1], [2, 0, -1, -1], [1, 0, -1, -1], [-1, -1, -1, -1]]
    )
