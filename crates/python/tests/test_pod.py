"""What one process does."""

import gc
import os
import random
import threading

import numpy as np
import pytest

import tombolo


def test_values(pod):
    pod.put("key", b"value")
    assert pod.get("key") == pod.get(b"key") == pod["key"] == b"value"
    assert pod.get("none") is None and pod.get("none", 7) == 7
    assert "key" in pod and "none" not in pod and len(pod) == 1
    pod[bytearray(b"array")] = np.arange(4, dtype=np.int32)
    assert np.frombuffer(pod["array"], dtype=np.int32).tolist() == [0, 1, 2, 3]
    assert sorted(pod) == sorted(pod.keys()) == [b"array", b"key"]
    assert list(pod.keys("k")) == [b"key"]
    assert not pod.add("key", b"another") and pod.add("new", b"another")
    assert pod.exists(["key", "none"]) == [True, False]
    del pod["key"]
    assert not pod.delete("key") and pod.delete("new")
    for missing in (lambda: pod["key"], lambda: pod.__delitem__("key"), lambda: pod.view("key")):
        with pytest.raises(KeyError, match="key"):
            missing()
    assert pod.stats()["objects"] == 1
    address, length = pod.mapping()
    assert address % 4096 == 0 and length >= 64 << 20


@pytest.mark.parametrize("size", [0, 1, 1000, 16 << 10, 100_000, 5 << 20])
def test_sizes(pod, size):
    value = random.randbytes(size)
    pod.put("key", value)
    assert pod["key"] == value
    buffer = bytearray(size + 3)
    assert pod.get_into("key", buffer) == size and buffer[:size] == value
    with pod.view("key") as view:
        assert bytes(view) == value and len(view) == view.nbytes == size
    assert not pod.add("key", b"") and pod.delete("key") and pod.add("key", value)
    assert pod["key"] == value


def test_get_into(pod):
    pod.put("key", b"12345")
    assert pod.get_into("none", bytearray(5)) is None
    array = np.zeros(5, dtype=np.uint8)
    assert pod.get_into("key", array) == 5 and bytes(array) == b"12345"
    short = bytearray(4)
    with pytest.raises(ValueError, match="5 bytes"):
        pod.get_into("key", short)
    assert short == bytes(4)
    for wrong in (b"12345", memoryview(b"12345")):
        with pytest.raises(BufferError):
            pod.get_into("key", wrong)


def test_many(pod):
    keys = [f"key:{number}" for number in range(100)]
    values = [os.urandom(number) for number in range(100)]
    pod.put_many(keys, values)
    buffers = [bytearray(number) for number in range(100)]
    buffers[3], buffers[4] = bytearray(2), bytearray(5)
    found = pod.get_many_into([*keys, "none"], [*buffers, bytearray(1)])
    assert found == [number not in (3, 4, 100) for number in range(101)]
    assert all(buffers[number] == values[number] for number in range(100) if found[number])
    with pytest.raises(ValueError, match="2 keys, and 1 values"):
        pod.put_many(["a", "b"], [b"a"])
    with pytest.raises(TypeError):
        pod.exists("abc")


def test_versions(pod):
    pod.put("key", b"one")
    with pod.view("key") as view:
        version = view.version
    new = pod.put_if_version("key", version, b"two")
    assert new is not None and new != version
    assert pod.put_if_version("key", version, b"late") is None and pod["key"] == b"two"
    assert not pod.delete_if_version("key", version) and pod.delete_if_version("key", new)


def test_views_are_no_copies_and_stay(pod):
    value = np.arange(1 << 18, dtype=np.float32)
    pod.put("array", value)
    view = pod.view("array")
    array = np.frombuffer(view, dtype=np.float32)
    address, length = pod.mapping()
    assert view.contiguous and address <= array.ctypes.data < address + length
    assert not array.flags.writeable
    pod.put("array", bytes(len(view)))
    assert (array == value).all()
    with pytest.raises(BufferError, match="show the view"):
        view.close()
    with pytest.raises(BufferError, match="1 views"):
        pod.close()
    del array
    view.close()
    assert view.closed and not pod.closed
    with pytest.raises(tombolo.PodError, match="view is closed"):
        len(view)
    # One that is forgotten is let go of when nothing shows it.
    array = np.frombuffer(pod.view("array"), dtype=np.uint8)
    assert not array.any()
    del array
    gc.collect()


def test_rooms(pod):
    with pod.reserve("key", 1 << 20) as room:
        array = np.frombuffer(room, dtype=np.uint32)
        array[:] = 7
        assert "key" not in pod
        with pytest.raises(BufferError, match="still write"):
            room.publish()
        del array
        version = room.publish()
    with pod.view("key") as view:
        assert view.version == version
    assert (np.frombuffer(pod["key"], dtype=np.uint32) == 7).all()
    with pod.reserve("key", 5) as room:
        room.write(b"12")
        room.write(b"345", offset=2)
        assert room.publish(new=True) is None
    with pytest.raises(tombolo.PodError, match="room is closed"):
        room.publish()
    with pod.reserve("other", 5) as room, pytest.raises(ValueError, match="not within"):
        room.write(b"123456")
    assert "other" not in pod
    # A room of several pieces has no buffer.
    with pod.reserve("long", 5 << 20) as room:
        try:
            memoryview(room).release()
        except BufferError as reason:
            assert "write()" in str(reason)
        room.write(bytes(5 << 20))
        room.publish()
    assert len(pod["long"]) == 5 << 20


def test_many_rooms_and_views(path):
    tombolo.create(path, "64MiB", rooms=500, force=True)
    with tombolo.Pod(path, views=20_000) as pod:
        rooms = [pod.reserve(f"key:{number}", 5000) for number in range(500)]
        for room in rooms:
            room.write(bytes(5000))
            room.publish()
        views = [pod.view(f"key:{number % 500}") for number in range(20_000)]
        with pytest.raises(tombolo.Error, match="views 20000 objects"):
            pod.view("key:1")
        for view in views:
            view.close()


def test_errors_are_sentences(path, pod):
    assert issubclass(tombolo.PodFull, tombolo.Error)
    with pytest.raises(tombolo.PodFull, match="full|fit"):
        pod.put("key", bytes(80 << 20))
    with pytest.raises(tombolo.PodError, match="in use"):
        tombolo.create(path, 1 << 20)
    with pytest.raises(tombolo.PodError):
        tombolo.Pod("/dev/shm/no/such/pod")
    with pytest.raises(ValueError, match="key of"):
        pod.put("k" * 2000, b"")
    for wrong in (7, None, 1.5, ["key"]):
        with pytest.raises(TypeError):
            pod.put(wrong, b"value")
    for wrong in (7, None, "text"):
        with pytest.raises(TypeError):
            pod.put("key", wrong)
    with pytest.raises((BufferError, ValueError)):
        pod.put("key", np.arange(10)[::2])
    with pytest.raises(ValueError, match="ttl"):
        pod.put("key", b"", ttl=-1)
    other = tombolo.Pod(path)
    other.close()
    other.close()
    with pytest.raises(tombolo.PodError, match="pod is closed"):
        other.get("key")
    assert "closed" in repr(other)


def test_time_to_live(pod):
    pod.put("short", b"value", ttl=0.001)
    pod.put("long", b"value", ttl=1000)
    deadline = threading.Event()
    for _ in range(1000):
        if "short" not in pod:
            break
        deadline.wait(0.01)
    assert "short" not in pod and "long" in pod


def test_threads_share_a_pod(pod):
    wrong = []

    def work(number):
        chance = random.Random(number)
        for _ in range(200):
            key = f"key:{chance.randrange(8)}"
            fill = chance.randrange(256)
            pod.put(key, bytes([fill]) * chance.choice([10, 5000, 300_000]))
            value = pod.get(key)
            with pod.view(key) as view:
                seen = bytes(view)
            for read in (value, seen):
                if read.count(read[0]) != len(read):
                    wrong.append(key)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_any_call_with_anything_is_an_exception_at_most(path):
    """A fuzz of the interface: for TOMBOLO_FUZZ_SECONDS, if that is set."""
    import time

    chance = random.Random(os.environ.get("TOMBOLO_FUZZ_SEED", "1"))
    until = time.monotonic() + float(os.environ.get("TOMBOLO_FUZZ_SECONDS", "2"))
    things = [
        *("", "a", "b", b"", b"a", 0, -1, 1 << 70, 1.5, None, [], ["a", "b"], {}, object()),
        *(bytearray(10), memoryview(bytes(9)), np.zeros(5), np.arange(9)[::2], bytes(100_000)),
    ]
    pods, handles = [tombolo.Pod(path), tombolo.Pod(path)], []
    calls = [name for name in dir(tombolo.Pod) if name not in ("__class__", "__init_subclass__")]
    while time.monotonic() < until:
        of = chance.choice(pods + handles)
        name = chance.choice(calls if isinstance(of, tombolo.Pod) else dir(of))
        if isinstance(of, memoryview):
            # Python's own calls on one that is released are not at stake.
            name = "release"
        if name in ("__class__", "__reduce__", "__reduce_ex__", "__dir__", "__sizeof__"):
            continue
        arguments = chance.choices(things + handles, k=chance.randrange(4))
        try:
            result = getattr(of, name)
            result = result(*arguments) if callable(result) else result
            if isinstance(result, (tombolo.View, tombolo.Room, tombolo.Keys, memoryview)):
                handles = [*handles[-5:], result]
        except Exception as reason:
            assert not isinstance(reason, SystemError), reason
        for at, pod in enumerate(pods):
            if pod.closed:
                pods[at] = tombolo.Pod(path)
