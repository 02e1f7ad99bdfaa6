"""A folder in an object store, against an S3-compatible server."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Iterator

import pytest
from object_store import ObjectStore, Refuses

from backend.datasets.sinks import PartsFolder, _store_errors, parts_folder
from backend.errors import ConfigError, DatasetError

MANY = 24 * 2**20
"""Bytes that pyarrow sends in three pieces."""


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as started:
        yield started


@pytest.fixture
def store(server: ObjectStore) -> Iterator[ObjectStore]:
    server.requests.clear()
    yield server
    server.refuses = lambda method, query: False
    server.bucket.clear()


def write(folder: PartsFolder, name: str, content: bytes) -> None:
    with folder.file(name) as file:
        file.write(content)


def test_a_prepared_folder_is_empty(store: ObjectStore) -> None:
    parts_folder("s3://bucket/labels/").prepare()
    assert store.objects() == {}


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_file_is_an_object_below_the_address(store: ObjectStore, slash: str) -> None:
    folder = parts_folder(f"s3://bucket/labels{slash}")
    write(folder, "a", b"one")
    assert (store.objects(), folder.names()) == ({"a": b"one"}, ["a"])


def test_the_server_may_be_named_in_the_address(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    write(parts_folder(f"s3://bucket/labels?{store.endpoint}"), "a", b"one")
    assert store.objects() == {"a": b"one"}


def test_a_bucket_itself_can_be_the_folder(store: ObjectStore) -> None:
    folder = parts_folder("s3://bucket")
    folder.prepare()
    write(folder, "a", b"one")
    assert (store.objects(""), folder.names()) == ({"a": b"one"}, ["a"])


def test_a_small_file_is_one_request_so_a_killed_process_leaves_none_half_done(store: ObjectStore) -> None:
    write(parts_folder("s3://bucket/labels"), "a", b"one")
    assert [method for method, _ in store.requests] == ["PUT"]


def test_an_error_while_a_file_is_written_leaves_no_object(store: ObjectStore) -> None:
    folder = parts_folder("s3://bucket/labels")
    with pytest.raises(ZeroDivisionError), folder.file("a") as file:
        file.write(bytes(MANY) + bytes(1 // 0))
    assert (store.objects(), store.requests) == ({}, [])


@pytest.mark.parametrize(
    ("refuses", "size"),
    [
        (lambda method, query: method == "PUT", 3),
        (lambda method, query: method == "POST" and query == "uploads", MANY),
        (lambda method, query: "partNumber=2" in query, MANY),
        (lambda method, query: method == "POST" and "uploadId" in query, MANY),
    ],
    ids=["the only request", "the beginning", "a piece", "the end"],
)
def test_an_upload_that_breaks_leaves_no_object_and_is_told(
    store: ObjectStore, refuses: Refuses, size: int
) -> None:
    store.refuses = refuses
    with pytest.raises(DatasetError, match="s3://bucket/labels/a: the object store refuses"):
        write(parts_folder("s3://bucket/labels"), "a", bytes(size))
    assert store.objects() == {}


@pytest.mark.parametrize("size", [3, MANY])
def test_an_interrupt_during_an_upload_leaves_the_whole_object(store: ObjectStore, size: int) -> None:
    def interrupts(method: str, query: str) -> bool:
        if method == "PUT" and "partNumber=2" not in query and "partNumber=3" not in query:
            os.kill(os.getpid(), signal.SIGINT)
        return False

    store.refuses = interrupts
    with pytest.raises(KeyboardInterrupt):
        write(parts_folder("s3://bucket/labels"), "a", bytes(size))
    assert store.objects() == {"a": bytes(size)}


def test_an_interrupt_while_the_thread_starts_sends_nothing(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, started = parts_folder("s3://bucket/labels"), []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(folder, "a", b"one")
    monkeypatch.undo()
    for thread in started:
        thread.join()
    assert (store.objects(), store.requests) == ({}, [])


def test_removed_files_go_and_the_others_stay(store: ObjectStore) -> None:
    folder = parts_folder("s3://bucket/labels")
    for name in "abc":
        write(folder, name, b"one")
    folder.remove(["a", "c"])
    assert list(store.objects()) == ["b"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_folder_that_may_not_be_listed_written_or_cleared_is_refused(
    store: ObjectStore, method: str
) -> None:
    store.refuses = lambda refused, query: refused == method
    with pytest.raises(DatasetError, match="refuses these credentials") as refused:
        parts_folder("s3://bucket/labels").prepare()
    assert "hush" not in str(refused.value)


def test_a_missing_bucket_is_refused(store: ObjectStore) -> None:
    with pytest.raises(DatasetError, match=r"s3://missing/labels: there is no such bucket"):
        parts_folder("s3://missing/labels").prepare()


@pytest.mark.parametrize(
    ("said", "told_as"),
    [
        ("AWS Error NETWORK_CONNECTION during ListObjectsV2 operation: curlCode: 7", "does not answer"),
        ("google::cloud::Status(UNAVAILABLE: Retry policy exhausted", "does not answer"),
        ("AWS Error UNKNOWN (HTTP status 403) during PutObject", "refuses these credentials"),
        ("google::cloud::Status(PERMISSION_DENIED: hush", "refuses these credentials"),
        ("Bucket 'hush' not found", "no such bucket"),
        ("AWS Error SLOW_DOWN during PutObject operation: hush", "cannot be used: SLOW_DOWN"),
        ("hush", "cannot be used: OSError"),
    ],
)
def test_errors_of_object_stores_are_told_without_their_texts(said: str, told_as: str) -> None:
    with pytest.raises(DatasetError, match=told_as) as raised, _store_errors("s3://bucket/labels"):
        raise OSError(said)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://hush@bucket/labels", "ftp:// is no object store"),
        ("s3://id:hush@bucket/labels", "credentials do not belong into an address"),
        ("s3:///labels", "has no bucket"),
        ("s3://bucket/labels?token=hush", "does not understand the address of s3://bucket/labels"),
    ],
)
def test_a_wrong_address_is_refused_without_its_secrets(address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        parts_folder(address).prepare()
    assert "hush" not in str(refused.value)


def test_a_folder_sent_to_another_host_takes_no_credentials_along(store: ObjectStore) -> None:
    folder = parts_folder("s3://bucket/labels")
    folder.prepare()
    sent = pickle.dumps(folder)
    assert os.environ["AWS_SECRET_ACCESS_KEY"].encode() not in sent
    write(pickle.loads(sent), "a", b"one")  # noqa: S301 - made here
    assert store.objects() == {"a": b"one"}


def test_options_of_an_address_are_not_shown() -> None:
    folder = parts_folder("s3://bucket/labels?endpoint_override=hush")
    assert "hush" not in repr(folder) + folder.name
