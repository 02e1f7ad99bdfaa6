"""Garbage collection during the import of heavy libraries."""

from __future__ import annotations

import gc

import pytest

from backend.models.model import garbage_collection_paused


def test_nothing_is_collected_inside_and_everything_afterwards() -> None:
    with garbage_collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collections_are_on_again_after_an_import_that_failed() -> None:
    with pytest.raises(ImportError), garbage_collection_paused():
        import there_is_no_such_module  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    assert gc.isenabled()


def test_collections_are_on_again_when_a_later_block_ends_later() -> None:
    first, second = garbage_collection_paused(), garbage_collection_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_collections_stay_off_if_they_were_off_before() -> None:
    gc.disable()
    try:
        with garbage_collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_made_inside_is_left_out_of_later_collections() -> None:
    before = gc.get_freeze_count()
    with garbage_collection_paused():
        objects: list[list[int]] = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= before + len(objects)
