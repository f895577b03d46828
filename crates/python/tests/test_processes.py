"""What several processes do, and what becomes of them when they are killed or forked."""

import contextlib
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import tombolo


@contextlib.contextmanager
def python(path, program):
    """Another process that runs `program` with a pod. It is killed at the end, if it is there."""
    program = f"import sys, time, tombolo\npod = tombolo.Pod({path!r})\n{program}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as process:
        yield process
        process.kill()


def wait_for(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to be within 30 s")


def test_processes_share_values(path, pod):
    pod.put("question", b"is anybody there?")
    program = "pod.put('answer', pod['question'][::-1])\npod.close()"
    with python(path, program) as process:
        assert process.wait() == 0
    assert pod["answer"] == b"is anybody there?"[::-1]


def test_arrays_of_another_process(path, pod):
    program = """
import numpy as np
for number in range(8):
    pod.put(f"block:{number}", np.full(1 << 16, number, dtype=np.int64))
pod.close()
"""
    with python(path, program) as process:
        assert process.wait() == 0
    views = [pod.view(f"block:{number}") for number in range(8)]
    arrays = [np.frombuffer(view, dtype=np.int64) for view in views]
    assert all((array == number).all() for number, array in enumerate(arrays))
    del arrays
    for view in views:
        view.close()


def test_a_killed_process_costs_nothing_but_what_it_was_at(path, pod):
    program = """
import random
fill = 0
while True:
    fill = (fill + 1) % 256
    pod.put(f"key:{fill % 4}", bytes([fill]) * random.choice([10, 5000, 300_000]))
    print("ready", flush=True)
"""
    for _ in range(5):
        with python(path, program) as process:
            for _ in range(20):
                assert process.stdout.readline() == "ready\n"
        for key in range(4):
            value = pod.get(f"key:{key}")
            assert value is None or value.count(value[0]) == len(value)
            pod.put(f"key:{key}", b"mine")
            assert pod[f"key:{key}"] == b"mine"


def test_the_room_of_a_killed_process_is_freed(path, pod):
    program = """
room = pod.reserve("key", 1 << 20)
others = [pod.reserve("other", 4 << 20) for _ in range(7)]
memoryview(room)[:] = bytes([7]) * (1 << 20)
print("ready", flush=True)
time.sleep(600)
"""
    for _ in range(3):
        with python(path, program) as process:
            assert process.stdout.readline() == "ready\n"

        def has_room():
            try:
                pod.put("large", bytes(50 << 20))
            except tombolo.PodFull:
                return False
            return pod.delete("large")

        wait_for(has_room)
        assert "key" not in pod


def test_a_killed_viewer_is_cleaned_up_after(path, pod):
    pod.put("key", bytes(20 << 20))
    program = "view = pod.view('key')\nprint('ready', flush=True)\ntime.sleep(600)"
    with python(path, program) as process:
        assert process.stdout.readline() == "ready\n"
        pod.put("key", b"small")

    def has_room():
        try:
            pod.put("large", bytes(50 << 20))
        except tombolo.PodFull:
            return False
        return True

    wait_for(has_room)


def test_a_child_is_refused(path, pod):
    pod.put("key", b"value")
    view = pod.view("key")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            pod.get("key")
        except tombolo.PodError as reason:
            code = 0 if "forked" in str(reason) else 2
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert pod["key"] == b"value" and bytes(view) == b"value"
    view.close()


def test_a_fenced_host_is_told(path, pod):
    """A process that is stopped for longer than the others wait is fenced, and says so."""
    program = """
print("ready", flush=True)
for line in sys.stdin:
    try:
        pod.put("key", b"value")
        print("done", flush=True)
    except tombolo.Error as reason:
        print(type(reason).__name__, flush=True)
"""
    command = os.environ.get("TOMBOLO_COMMAND")
    if not command:
        pytest.skip("TOMBOLO_COMMAND does not name the command that fences a host")
    with python(path, program) as process:
        assert process.stdout.readline() == "ready\n"
        subprocess.run([command, "pod", "fence", path, "1"], check=True)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "Fenced\n"
