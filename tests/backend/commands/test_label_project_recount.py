"""``camvo label --project N --recount --ask-more``: Label Studio shows what kept and further votes say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from doubtful_project import CHEAP, DEAR, MODELS, NUMBERS, script
from label_studio_api import KEY, PROJECT, LabelStudioApi
from labelling import LabelFolder
from pydantic import SecretStr

from backend.commands.label.project import _predict_in_process
from backend.commands.shared.options import LabelOptions
from backend.ledger import money, recounts
from backend.ledger.money import from_picodollars
from backend.ledger.rounds import ProjectRounds


def run(api: LabelStudioApi, folder: LabelFolder, **options: object) -> None:
    key = {"label_studio_api_key": SecretStr(KEY)}
    _predict_in_process(
        api.client(),
        PROJECT,
        LabelOptions(**options),  # type: ignore[arg-type]
        folder.environment.model_copy(update=key),
        folder.console,
    )


@pytest.fixture
def predicted(tmp_path: Path) -> Iterator[tuple[LabelStudioApi, LabelFolder]]:
    """A predicted project; a right label was worth little then, and is worth much now."""
    with LabelStudioApi() as api, LabelFolder(tmp_path, script, policy=CHEAP) as folder:
        config = (tmp_path / "camvo.yaml").read_text()
        [first, _] = yaml.safe_load(config)["models"]
        models = [{**first, "name": name, "model": f"openai/{name}"} for name in MODELS]
        (tmp_path / "camvo.yaml").write_text(yaml.safe_dump(yaml.safe_load(config) | {"models": models}))
        api.add_tasks(*(f"Note {number}: {'sunny' if number % 2 else 'rainy'}" for number in NUMBERS))
        run(api, folder)
        path = tmp_path / "camvo.yaml"
        settings = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(settings | {"policy": DEAR}))
        yield api, folder


def spent(api: LabelStudioApi, folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        return from_picodollars(money.balance(connection, api.project_key, "further").spent)


def scores_of_ledger(api: LabelStudioApi, folder: LabelFolder) -> dict[int, float]:
    with folder.ledger.read() as connection:
        found = {task: ProjectRounds(connection, api.project_key).of_task(task)[0] for task in api.tasks}
        latest = recounts.with_latest(connection, {round_.key: round_ for round_ in found.values()})
    return {task: latest[round_.key].score for task, round_ in found.items()}


def test_further_votes_and_the_recount_reach_label_studio(
    predicted: tuple[LabelStudioApi, LabelFolder],
) -> None:
    api, folder = predicted
    before = {task: score for task, _, score in api.predictions()}
    run(api, folder, recount=True, ask_more=1.0)
    after = {task: score for task, _, score in api.predictions()}
    assert spent(api, folder) > 0.0
    assert after != before
    assert after == pytest.approx(scores_of_ledger(api, folder))


def test_a_recount_alone_asks_no_model(predicted: tuple[LabelStudioApi, LabelFolder]) -> None:
    api, folder = predicted
    asked = folder.server.count()
    run(api, folder, recount=True)
    assert folder.server.count() == asked
    said = folder.console.file.getvalue()  # type: ignore[attr-defined]
    assert "Counted again" in said
    assert "predictions replaced in Label Studio" in said


def test_tasks_that_somebody_has_annotated_or_begun_are_left(
    predicted: tuple[LabelStudioApi, LabelFolder],
) -> None:
    api, folder = predicted
    before, asked = api.predictions(), folder.server.count()
    for number, task in api.tasks.items():
        if number % 2:
            api.annotate(number, "Glad")
        else:
            task["draft_exists"] = True
    run(api, folder, recount=True, ask_more=1.0)
    assert folder.server.count() == asked
    assert api.predictions() == before
