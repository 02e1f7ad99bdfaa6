"""The table of Label Studio's templates on the page of control tags.

    python docs/site_templates.py           # writes the table in docs/tags.md

Each template is parsed, asked about a made-up task, answered by a script and predicted. Label Studio must be
installed: ``python tests/e2e/label_studio.py`` does it. ``tests/backend/questions/test_templates.py`` fails
if the table is not what this would write.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from label_studio_templates import PAGE, table

_TABLE = re.compile(r"(?<=\n)\| templates \|.*?(?=\n\n)", re.DOTALL)


def main() -> None:
    """Write the table."""
    found = table()
    PAGE.write_text(_TABLE.sub(lambda _: found, PAGE.read_text("utf-8"), count=1), "utf-8")


if __name__ == "__main__":
    main()
