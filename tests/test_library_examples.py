"""The Python examples of the README and of docs/library.md run."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_examples import run_example, run_page, what_a_reader_has

ROOT = Path(__file__).parent.parent
PAGES = [page for page in (ROOT / "README.md", ROOT / "docs" / "library.md") if page.exists()]

SHORTEST = """
import camvo

question = camvo.Question(("neg", "pos"), prices={"small": 0.1, "large": 5.0}, dimension=384)
task = question.task(embedding)
while models := task.ask():
    task.add({model: call(model) for model in models})
label, score = task.decide()
task.learn()
task.learn(human="pos")
"""
"""The shortest way to use the library: every page may assume that it works."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_examples_of_a_page_run_one_after_the_other(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_the_shortest_example_labels_a_task_and_learns_from_it():
    names = what_a_reader_has()
    run_example(SHORTEST, names, "the shortest example")
    assert names["label"] == "pos"
    assert 0.5 < names["score"] <= 1.0
    assert names["question"].state.rounds == 1
