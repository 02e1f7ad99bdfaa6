"""Count the tokens and dollars of a label with 1, 5, 20 and 50 tasks in a prompt, on texts of votes tables.

    python benchmarks/packing.py VOTES.csv … [--items 1000]

Each table ``X.csv`` needs ``X.json`` beside it, with ``labels`` and ``usd_per_million_input_tokens``. The
prompts are those that CaMVo sends, with the labels as a single Choices question, and random texts of the
table. Tokens are litellm's count. An answer has the tokens of the JSON that the prompt asks for, with the
table's true labels. Output tokens cost four times as much as input tokens, which is a usual ratio.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from backend.models.model import count_text, count_tokens
from backend.questions import parse_label_config
from backend.questions.prompts.messages import prompt_messages, texts_of
from backend.questions.prompts.packs import draw_ids, packed_messages, packed_task
from backend.questions.question import TaskQuestion

SIZES = (1, 5, 20, 50)
_OUTPUT = 4.0
"""What an output token costs, in prices of an input token."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one label."""

    input: float
    output: float

    def dollars(self, price: float) -> float:
        """$ at so many $ per million input tokens."""
        return (self.input + _OUTPUT * self.output) * price / 1e6


def read_texts(path: Path, items: int, rng: random.Random) -> list[tuple[str, str]]:
    """Random pairs of a text and its true label."""
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="") as file:
        rows = [(row["text"], row["truth"]) for row in csv.DictReader(file) if row["text"].strip()]
    return rng.sample(rows, min(items, len(rows)))


def questions_about(texts: Sequence[str], labels: Sequence[str]) -> list[list[TaskQuestion]]:
    """The question of a table about each text."""
    choices = "".join(f"<Choice value={quoteattr(label)}/>" for label in labels)
    config = parse_label_config(
        '<View><Text name="text" value="$text"/>'
        f'<Choices name="label" toName="text" choice="single">{choices}</Choices></View>'
    )
    return [[question.about({"text": text}) for question in config.questions] for text in texts]


def usage(rows: Sequence[tuple[str, str]], labels: Sequence[str], size: int, rng: random.Random) -> Usage:
    """The mean tokens of one label with ``size`` tasks in a prompt."""
    asked = questions_about([text for text, _ in rows], labels)
    inputs = outputs = 0
    for start in range(0, len(rows) - size + 1, size):
        part, truths = asked[start : start + size], [label for _, label in rows[start : start + size]]
        if size == 1:
            messages = prompt_messages(part[0], None)
            answer: dict[str, str] = {"label": truths[0]}
        else:
            tasks = [packed for questions in part if (packed := packed_task(questions, None)) is not None]
            ids = draw_ids(tasks, rng)
            if ids is None:
                raise SystemExit("a text holds lines of the prompt for nearly all ids")
            messages = packed_messages(dict(zip(ids, tasks, strict=True)))
            answer = dict(zip(ids, truths, strict=True))
        inputs += count_tokens(texts_of(messages))
        outputs += count_text(json.dumps(answer, ensure_ascii=False))
    asked_about = len(rows) // size * size
    return Usage(inputs / asked_about, outputs / asked_about)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("votes", type=Path, nargs="+")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311 - a sample, no secret
    print("| table | tokens of a text | tasks in a prompt | input | output | $ per 1,000 labels | share |")
    print("|---|---|---|---|---|---|---|")
    for path in options.votes:
        facts = json.loads(path.with_suffix(".json").read_text())
        rows = read_texts(path, options.items, rng)
        length = statistics.median(count_text(text) for text, _ in rows)
        price = statistics.mean(facts["usd_per_million_input_tokens"].values())
        alone = usage(rows, facts["labels"], 1, rng)
        for size in SIZES:
            used = alone if size == 1 else usage(rows, facts["labels"], size, rng)
            dollars = used.dollars(price)
            print(
                f"| {path.stem} | {length:.0f} | {size} | {used.input:.0f} | {used.output:.1f} "
                f"| {1000 * dollars:.3f} | {dollars / alone.dollars(price):.0%} |"
            )


if __name__ == "__main__":
    main()
