"""Times of the Python module, in one process: `python measure.py [POD]`. The best of several runs."""

import os
import sys
import tempfile
import time

import numpy as np

import tombolo


def best(runs, work, *, count=1):
    """Seconds that one of `count` operations takes."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times) / count


def main(path):
    tombolo.create(path, "1GiB", chunk="64MiB", force=True)
    with tombolo.Pod(path) as pod:
        size = 32 << 20
        value, into = np.ones(size, dtype=np.uint8), np.zeros(size, dtype=np.uint8)
        pod.put("large", value)
        memcpy = best(20, lambda: np.copyto(into, value))
        loaded = best(20, lambda: pod.get_into("large", into))
        print(f"memcpy of 32 MiB       {memcpy * 1e3:8.2f} ms")
        print(f"get_into of 32 MiB     {loaded * 1e3:8.2f} ms, {memcpy / loaded:.2f} of memcpy")
        stored = best(20, lambda: pod.put("large", value))
        print(f"put of 32 MiB          {stored * 1e3:8.2f} ms, {memcpy / stored:.2f} of memcpy")

        def add():
            pod.delete("new")
            pod.add("new", value)

        print(f"add of 32 MiB          {best(20, add) * 1e3:8.2f} ms")

        def view():
            for _ in range(1000):
                pod.view("large").close()

        print(f"view of 32 MiB         {best(20, view, count=1000) * 1e6:8.2f} µs")

        keys = [f"key:{number}" for number in range(1000)]
        values = [os.urandom(1024) for _ in keys]
        buffers = [bytearray(1024) for _ in keys]
        puts = best(50, lambda: pod.put_many(keys, values), count=1000)
        gets = best(50, lambda: pod.get_many_into(keys, buffers), count=1000)
        print(f"put_many of 1 KiB      {puts * 1e6:8.2f} µs a value")
        print(f"get_many_into of 1 KiB {gets * 1e6:8.2f} µs a value")

        def get():
            for key in keys:
                pod.get(key)

        print(f"get of 1 KiB           {best(20, get, count=1000) * 1e6:8.2f} µs")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "pod"))
