"""A secondary tier of vLLM's KV offloading, in a pod that several engines share.

    "secondary_tiers": [{"type": "TomboloTier", "module_path": "tombolo.vllm",
                         "pod": "/dev/shm/pod", "namespace": "my-model"}]

Engines share blocks whose hashes are equal: they need the same `namespace`, model and block size,
and one PYTHONHASHSEED.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from vllm.v1.kv_offload.base import LookupResult, RequestOffloadingContext
from vllm.v1.kv_offload.tiering.base import JobMetadata, JobResult, SecondaryTierManager

from ._batches import Batch, Copier

__all__ = ["TomboloTier"]

# Keys whose blocks could not be loaded: so many are remembered as misses.
_REMEMBERED = 10_000


class TomboloTier(SecondaryTierManager):
    """Stores and loads blocks on threads of its own."""

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        pod: str,
        namespace: str = "",
        threads: int = 4,
        backlog_bytes: int = 1 << 30,
    ) -> None:
        super().__init__(offloading_spec, primary_kv_view, tier_type)
        if primary_kv_view.strides is None:
            raise ValueError("the view of the primary tier has no strides")
        self._block_bytes = primary_kv_view.strides[0]
        self._bytes = primary_kv_view.cast("B")
        self._namespace = namespace.encode() + b"/"
        self._copier = Copier(pod, threads, backlog_bytes)
        self._changed = threading.Condition()
        self._finished: list[JobResult] = []
        self._pending = 0
        self._misses: dict[bytes, None] = {}

    def lookup(self, key: Any, req_context: Any) -> LookupResult:
        """Looks a block up in this host's index of the pod, which takes about a microsecond."""
        name = self._name(key)
        try:
            found = name not in self._misses and name in self._copier.pod
        except Exception:  # noqa: BLE001: a failure is a miss, whatever it is
            found = False
        return LookupResult.HIT if found else LookupResult.MISS

    def submit_store(self, job_metadata: JobMetadata) -> None:
        names, blocks = self._parts(job_metadata)
        for name in names:
            self._misses.pop(name, None)
        self._copier.set(names, blocks, self._begin(job_metadata.job_id, names))

    def submit_load(self, job_metadata: JobMetadata) -> None:
        names, blocks = self._parts(job_metadata)
        batch = self._begin(job_metadata.job_id, names, is_load=True)
        self._copier.get(names, blocks, batch)

    def get_finished_jobs(self) -> Iterable[JobResult]:
        with self._changed:
            finished, self._finished = self._finished, []
        return finished

    def on_new_request(self, req_context: Any) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def drain_jobs(self) -> None:
        """Waits until all jobs have finished."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending == 0)

    def shutdown(self) -> None:
        self._copier.close()

    def _name(self, key: Any) -> bytes:
        return self._namespace + bytes(key)

    def _parts(self, job: JobMetadata) -> tuple[list[bytes], list[memoryview]]:
        names = [self._name(key) for key in job.keys]
        starts = [int(block) * self._block_bytes for block in job.block_ids]
        return names, [self._bytes[start : start + self._block_bytes] for start in starts]

    def _begin(self, job: int, names: list[bytes], is_load: bool = False) -> Batch:
        with self._changed:
            self._pending += 1

        def done(batch: Batch) -> None:
            with self._changed:
                if is_load:
                    # Else the scheduler would find the same block, and fail, again and again.
                    for name, loaded in zip(names, batch.results, strict=True):
                        if not loaded:
                            self._misses[name] = None
                    while len(self._misses) > _REMEMBERED:
                        self._misses.pop(next(iter(self._misses)))
                self._finished.append(JobResult(job_id=job, success=all(batch.results)))
                self._pending -= 1
                self._changed.notify_all()

        return Batch(len(names), done)
