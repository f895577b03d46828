"""The connector of LMCache's `native_plugin`: KV chunks in a pod that several servers share.

    lmcache server --l2-adapter '{"type": "native_plugin", "module_path": "tombolo.lmcache",
        "class_name": "Connector", "adapter_params": {"pod": "/dev/shm/pod"}}'
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from ._batches import Batch, Copier

__all__ = ["Connector"]

Completion = tuple[int, bool, str, list[bool] | None]


class Connector:
    """Stores and loads chunks on threads of its own. No submit blocks, and none raises.

    Buffers have to live until their completion is drained. A key that is there is not stored again,
    since equal keys name equal bytes. A value of another length than its buffer is a miss.
    """

    def __init__(self, pod: str, threads: int = 4, backlog_bytes: int = 1 << 30) -> None:
        self._copier = Copier(pod, threads, backlog_bytes)
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._completed: list[Completion] = []
        self._next = 0
        self._closed = False

    def event_fd(self) -> int:
        """A descriptor that can be read when completions wait to be drained."""
        return self._event

    def submit_batch_get(self, keys: Sequence[str], bufs: Sequence[memoryview]) -> int:
        future, batch = self._begin(len(keys), flags=True)
        self._copier.get(keys, bufs, batch)
        return future

    def submit_batch_set(self, keys: Sequence[str], bufs: Sequence[memoryview]) -> int:
        future, batch = self._begin(len(keys), flags=False)
        self._copier.set(keys, bufs, batch)
        return future

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        future, batch = self._begin(len(keys), flags=True)
        self._copier.exists(keys, batch)
        return future

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        future, batch = self._begin(len(keys), flags=True)
        self._copier.delete(keys, batch)
        return future

    def drain_completions(self) -> list[Completion]:
        """What has ended since the last call: (future, ok, error, a flag for each key or None)."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return []
        with self._lock:
            completed, self._completed = self._completed, []
        return completed

    def close(self) -> None:
        """Ends all that is under way, and leaves the pod."""
        if self._closed:
            return
        self._closed = True
        self._copier.close()
        os.close(self._event)

    def _begin(self, count: int, flags: bool) -> tuple[int, Batch]:
        with self._lock:
            future = self._next
            self._next += 1

        def done(batch: Batch) -> None:
            # A miss is no failure; a store that was not done is one.
            ok = flags or all(batch.results)
            completion = (future, ok, batch.error, batch.results if flags else None)
            with self._lock:
                self._completed.append(completion)
            os.eventfd_write(self._event, 1)

        return future, Batch(count, done)
