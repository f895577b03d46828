"""Batches of copies between a pod and buffers, done by threads: what the connectors are made of."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from . import Error, Pod, PodFull


class Batch:
    """Operations that end together. `results` has one flag for each, `error` the first failure."""

    def __init__(self, count: int, done: Callable[[Batch], None]) -> None:
        self.results = [False] * count
        self.error = ""
        self._left = count
        self._done = done
        self._lock = threading.Lock()
        if count == 0:
            done(self)

    def end(self, place: int, result: bool, error: str = "") -> None:
        with self._lock:
            self.results[place] = result
            self.error = self.error or error
            self._left -= 1
            last = self._left == 0
        if last:
            self._done(self)


class Copier:
    """Threads that store and load values. No call of it waits for a copy.

    A failure is a result, never an exception: `False`, and a sentence in the batch.
    """

    def __init__(self, pod: str, threads: int = 4, backlog_bytes: int = 1 << 30) -> None:
        self.pod = Pod(pod)
        self._probe()
        self._backlog_bytes = backlog_bytes
        self._stored_bytes = 0
        self._jobs: deque[tuple[Callable[[], bool], Batch, int, int]] = deque()
        self._wanted = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"tombolo-{number}", daemon=True)
            for number in range(max(threads, 1))
        ]
        for thread in self._threads:
            thread.start()

    def _probe(self) -> None:
        """Fails loudly at the start where each operation would fail silently later."""
        import os

        key = f"tombolo.probe.{os.getpid()}.{id(self)}"
        self.pod.put(key, b"probe")
        found = self.pod.get(key)
        self.pod.delete(key)
        if found != b"probe":
            raise Error(f"the pod does not give back what was put: {found!r}")

    def get(self, keys: Sequence[str], buffers: Sequence[memoryview], batch: Batch) -> None:
        """Loads values. A value of another length than its buffer is a miss."""

        def job(key: str, buffer: memoryview) -> Callable[[], bool]:
            return lambda: self.pod.get_many_into([key], [buffer])[0]

        self._submit([job(*pair) for pair in zip(keys, buffers, strict=True)], batch)

    def set(self, keys: Sequence[str], buffers: Sequence[memoryview], batch: Batch) -> None:
        """Stores values. A key that has a value already keeps it."""
        bytes_of = [memoryview(buffer).nbytes for buffer in buffers]
        with self._wanted:
            over = self._stored_bytes + sum(bytes_of) > self._backlog_bytes
            if not over:
                self._stored_bytes += sum(bytes_of)
        if over:
            for place in range(len(keys)):
                batch.end(place, False, "too many bytes wait to be stored")
            return

        def job(key: str, buffer: memoryview) -> Callable[[], bool]:
            return lambda: self.pod.add(key, buffer) or True

        jobs = [job(*pair) for pair in zip(keys, buffers, strict=True)]
        self._submit(jobs, batch, bytes_of)

    def exists(self, keys: Sequence[str], batch: Batch) -> None:
        """Says which keys have values."""
        self._submit([lambda key=key: self.pod.exists([key])[0] for key in keys], batch)

    def delete(self, keys: Sequence[str], batch: Batch) -> None:
        """Removes values."""
        self._submit([lambda key=key: self.pod.delete(key) for key in keys], batch)

    def close(self) -> None:
        """Ends all that is under way, and leaves the pod."""
        with self._wanted:
            self._stopping = True
            self._wanted.notify_all()
        for thread in self._threads:
            thread.join()
        while self._jobs:
            _, batch, place, _ = self._jobs.popleft()
            batch.end(place, False, "the connector was closed")
        self.pod.close()

    def _submit(
        self,
        jobs: Sequence[Callable[[], bool]],
        batch: Batch,
        bytes_of: Sequence[int] | None = None,
    ) -> None:
        with self._wanted:
            stopping = self._stopping
            if not stopping:
                for place, job in enumerate(jobs):
                    self._jobs.append((job, batch, place, bytes_of[place] if bytes_of else 0))
                self._wanted.notify(len(jobs))
        if stopping:
            for place in range(len(jobs)):
                batch.end(place, False, "the connector is closed")

    def _work(self) -> None:
        while True:
            with self._wanted:
                while not self._jobs and not self._stopping:
                    self._wanted.wait()
                if self._stopping:
                    return
                job, batch, place, stored = self._jobs.popleft()
            result, error = False, ""
            try:
                result = job()
            except PodFull as reason:
                error = f"the pod is full: {reason}"
            except Exception as reason:  # noqa: BLE001: a failure is a miss, whatever it is
                error = f"{type(reason).__name__}: {reason}"
            # The caller may free its buffer as soon as the batch has ended.
            del job
            if stored:
                with self._wanted:
                    self._stored_bytes -= stored
            batch.end(place, result, error)
