"""The connector without LMCache: what its adapter does with it."""

import os
import select

import pytest

import tombolo
from tombolo.lmcache import Connector


@pytest.fixture
def connector(path):
    connector = Connector(pod=path, threads=3)
    yield connector
    connector.close()


def drain(connector, *futures):
    """Completions of these futures, as the adapter waits for them."""
    poll, found = select.poll(), {}
    poll.register(connector.event_fd(), select.POLLIN)
    while not set(futures) <= found.keys():
        assert poll.poll(30_000), "no completion for 30 s"
        for future, *rest in connector.drain_completions():
            assert future not in found
            found[future] = tuple(rest)
    return [found[future] for future in futures]


def test_chunks_go_and_come(connector, path):
    keys = [f"model@1@0@{number:064x}" for number in range(12)]
    chunks = [os.urandom(1_000_000) for _ in keys]
    stored = connector.submit_batch_set(keys, [memoryview(chunk) for chunk in chunks])
    assert drain(connector, stored) == [(True, "", None)]
    with_another = Connector(pod=path)
    buffers = [bytearray(1_000_000) for _ in range(13)]
    loaded = with_another.submit_batch_get([*keys, "none"], [memoryview(b) for b in buffers])
    exist = with_another.submit_batch_exists(["none", *keys[:2]])
    (ok, _, hits), exists = drain(with_another, loaded, exist)
    assert ok and hits == [True] * 12 + [False] and buffers[:12] == chunks
    assert exists == (True, "", [False, True, True])
    deleted = with_another.submit_batch_delete([keys[0], "none"])
    assert drain(with_another, deleted) == [(True, "", [True, False])]
    with_another.close()


def test_equal_keys_are_stored_once(connector):
    for value in (b"first", b"later"):
        future = connector.submit_batch_set(["key"], [memoryview(value)])
        assert drain(connector, future)[0][0]
    buffer = bytearray(5)
    assert drain(connector, connector.submit_batch_get(["key"], [memoryview(buffer)]))[0][0]
    assert buffer == b"first"


def test_another_length_is_a_miss(connector):
    drain(connector, connector.submit_batch_set(["key"], [memoryview(b"12345")]))
    for length in (4, 6):
        future = connector.submit_batch_get(["key"], [memoryview(bytearray(length))])
        assert drain(connector, future) == [(True, "", [False])]


def test_failures_are_results(connector):
    future = connector.submit_batch_set(["large"], [memoryview(bytes(80 << 20))])
    ((ok, error, flags),) = drain(connector, future)
    assert not ok and "full" in error and flags is None
    assert drain(connector, connector.submit_batch_set([], [])) == [(True, "", None)]
    ((ok, error, flags),) = drain(connector, connector.submit_batch_exists(["k" * 5000]))
    assert ok and flags == [False]


def test_the_backlog_is_bounded(path):
    connector = Connector(pod=path, threads=1, backlog_bytes=1 << 20)
    futures = [
        connector.submit_batch_set([f"key:{number}"], [memoryview(bytes(1 << 20))])
        for number in range(10)
    ]
    outcomes = drain(connector, *futures)
    assert outcomes[0][0] and all(ok or "wait" in error for ok, error, _ in outcomes)
    connector.close()
    connector.close()


def test_what_is_wrong_is_said_at_the_start():
    with pytest.raises(tombolo.PodError):
        Connector(pod="/dev/shm/no/such/pod")
