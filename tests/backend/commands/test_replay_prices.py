from __future__ import annotations

import json
from pathlib import Path

import pytest

from backend.commands.replay.inputs import read_prices
from backend.errors import ReplayError

MODELS = ("large", "small")


def from_file(folder: Path, content: object) -> dict[str, float]:
    path = folder / "prices.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return read_prices(str(path), MODELS, Path("votes.csv"))


def test_prices_are_given_as_pairs_or_in_a_file_by_themselves_or_under_their_key(tmp_path: Path) -> None:
    wanted = {"large": 2.5, "small": 0.0}
    assert read_prices("small=0, large=2.5", MODELS, Path("votes.csv")) == wanted
    assert from_file(tmp_path, wanted) == wanted
    assert from_file(tmp_path, {"name": "x", "usd_per_million_input_tokens": wanted}) == wanted


def test_prices_are_in_the_order_of_the_models() -> None:
    assert list(read_prices("small=1,large=2", MODELS, Path("votes.csv"))) == ["large", "small"]


def test_a_name_may_hold_an_equals_sign() -> None:
    assert read_prices("a=b=1", ("a=b",), Path("votes.csv")) == {"a=b": 1.0}


def test_without_any_the_json_beside_the_table_has_them(tmp_path: Path) -> None:
    (tmp_path / "votes.json").write_text('{"large": 1, "small": 2}')
    assert read_prices(None, MODELS, tmp_path / "votes.csv") == {"large": 1.0, "small": 2.0}


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    assert from_file(tmp_path, '\ufeff{"large": 1, "small": 2}') == {"large": 1.0, "small": 2.0}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("large=1", "--prices: no price for the model 'small' of votes.csv"),
        ("large=1,small=2,tiny=3", "--prices: 'tiny' is not a model of votes.csv (models: large, small)"),
        ("large=1,small=-2", "--prices, small: -2.0 is not a price in dollars"),
        ("large=1,small=nan", "--prices, small: nan is not a price in dollars"),
        ("large=1,small=inf", "--prices, small: inf is not a price in dollars"),
        ("large=1,small=dear", "--prices, small: 'dear' is not a price in dollars"),
        ("large=1,large=2", "--prices: 'large=2' is not one model=usd each"),
        ("large=1,", "--prices: '' is not one model=usd each"),
        (
            "none.json",
            "none.json: no prices: cannot be read (No such file or directory) (give --prices FILE.json or",
        ),
        (
            None,
            "votes.json: no prices: cannot be read (No such file or directory) (give --prices FILE.json or",
        ),
    ],
)
def test_prices_that_are_none_are_refused(given: str | None, said: str) -> None:
    with pytest.raises(ReplayError) as caught:
        read_prices(given, MODELS, Path("votes.csv"))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("no json", "prices.json: is not JSON in UTF-8 (correct the file)"),
        ([1, 2], 'prices.json: needs {"model": usd, …}, by itself or under "usd_per_million_input_tokens"'),
        ({"large": "1", "small": 2}, "prices.json, large: '1' is not a price in dollars (give 0 or more)"),
        ({"large": True, "small": 2}, "prices.json, large: True is not a price in dollars (give 0 or more)"),
    ],
)
def test_a_file_without_prices_is_refused(content: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(ReplayError) as caught:
        from_file(tmp_path, content)
    assert str(caught.value).endswith(said)


def test_a_missing_price_is_asked_for_in_the_form_of_its_source(tmp_path: Path) -> None:
    with pytest.raises(ReplayError) as caught:
        read_prices("small=1", ("large", "small"), Path("votes.csv"))
    assert caught.value.fix == "add large=usd"
    with pytest.raises(ReplayError) as caught:
        from_file(tmp_path, {"small": 1})
    assert caught.value.fix == 'write "large": usd'


def test_a_name_with_a_comma_is_sent_to_a_json_file() -> None:
    for given in ("small=1", "small=1,m,2=3"):
        with pytest.raises(ReplayError, match="JSON file"):
            read_prices(given, ("m,2", "small"), Path("votes.csv"))


def test_a_table_without_truth_is_told_how_its_column_is_called() -> None:
    with pytest.raises(ReplayError, match="rename the column to 'truth' if it has the right labels"):
        read_prices("small=1", ("gold", "small"), Path("votes.csv"), has_truth=False)
