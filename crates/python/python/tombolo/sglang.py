"""A storage of SGLang's hierarchical cache, in a pod that several servers share.

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{
        "backend_name": "tombolo", "module_path": "tombolo.sglang",
        "class_name": "TomboloStorage", "interface_v1": 1, "pod": "/dev/shm/pod"}'
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from sglang.srt.mem_cache.hicache_storage import HiCacheStorage

from ._batches import Batch, Copier

__all__ = ["TomboloStorage"]


class TomboloStorage(HiCacheStorage):
    """Copies pages between the pod and the host's pool of pages. Calls wait for their copies.

    A page is one value for each of its parts in the pool: keys and values, say. It is there if all
    of its parts are.
    """

    def __init__(self, storage_config: Any, kwargs: Any = None) -> None:
        extra = storage_config.extra_config or {}
        if "pod" not in extra:
            raise ValueError('the extra config has no "pod", which says where the pod is')
        self._copier = Copier(extra["pod"], int(extra.get("threads", 4)))
        self._suffix = _suffix(storage_config)
        self._parts = 1 if storage_config.is_mla_model else 2
        self.mem_pool_host: Any = None

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        self.mem_pool_host = mem_pool_host

    def batch_get_v1(
        self, keys: Sequence[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        """Loads pages into the pool; which were there."""
        return self._copy(self._copier.get, keys, host_indices)

    def batch_set_v1(
        self, keys: Sequence[str], host_indices: Any, extra_info: Any = None
    ) -> list[bool]:
        """Stores pages of the pool; which are there now. One that was there stays as it is."""
        return self._copy(self._copier.set, keys, host_indices)

    def batch_exists(self, keys: Sequence[str], extra_info: Any = None) -> int:
        """How many pages are there, from the first on."""
        names = [name for key in keys for name in self._names(key, self._parts)]
        try:
            found = self._copier.pod.exists(names)
        except Exception:  # noqa: BLE001: a failure is a miss, whatever it is
            return 0
        return (found.index(False) if False in found else len(found)) // self._parts

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """Loads one value into a tensor of its size; `None` if it is not there."""
        loaded = target_location is not None and self._wait(
            self._copier.get, [key + self._suffix], [_bytes_of(target_location)]
        )
        return target_location if loaded == [True] else None

    def batch_get(
        self, keys: Sequence[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[Any]:
        targets = target_locations or [None] * len(keys)
        return [self.get(key, target) for key, target in zip(keys, targets, strict=True)]

    def set(
        self,
        key: str,
        value: Any = None,
        target_location: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """Stores one tensor, unless the key has a value."""
        stored = value is not None and self._wait(
            self._copier.set, [key + self._suffix], [_bytes_of(value)]
        )
        return stored == [True]

    def batch_set(
        self,
        keys: Sequence[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        values = values if values is not None else []
        return len(keys) == len(values) and all(
            self.set(key, value) for key, value in zip(keys, values, strict=True)
        )

    def clear(self) -> None:
        """Removes what this server's rank has stored, and others of its rank and model."""
        suffix = self._suffix.encode()
        walk = self._copier.pod.keys()
        names = [name for name in walk if suffix in name]
        for name in names:
            self._copier.pod.delete(name)

    def close(self) -> None:
        self._copier.close()

    def _names(self, key: str, parts: int) -> list[str]:
        return [f"{key}{self._suffix}.{part}" for part in range(parts)]

    def _copy(self, copy: Any, keys: Sequence[str], host_indices: Any) -> list[bool]:
        pointers, sizes = self.mem_pool_host.get_page_buffer_meta(host_indices)
        if isinstance(sizes, int):
            sizes = [sizes] * len(pointers)
        parts = len(pointers) // max(len(keys), 1)
        if parts * len(keys) != len(pointers):
            raise ValueError(f"{len(keys)} pages have {len(pointers)} parts in the pool")
        self._parts = parts or self._parts
        names = [name for key in keys for name in self._names(key, parts)]
        buffers = [_at(*place) for place in zip(pointers, sizes, strict=True)]
        flags = self._wait(copy, names, buffers)
        return [all(flags[at : at + parts]) for at in range(0, len(flags), max(parts, 1))]

    def _wait(
        self, copy: Any, names: Sequence[str], buffers: Sequence[memoryview]
    ) -> list[bool]:
        ended = threading.Event()
        batch = Batch(len(names), lambda _: ended.set())
        copy(names, buffers, batch)
        ended.wait()
        return batch.results


def _suffix(config: Any) -> str:
    """Ranks that hold different parts of a page have different keys."""
    model = "-".join((config.model_name or "").split("/"))
    suffix = f"_{model}"
    if not config.is_mla_model:
        suffix += f"_{config.tp_rank}_{config.tp_size}"
    if config.pp_size > 1:
        suffix += f"_{config.pp_size}_{config.pp_rank}"
    if getattr(config, "attn_cp_size", 1) > 1:
        suffix += f"_cp{config.attn_cp_rank}_{config.attn_cp_size}"
    return suffix


def _at(pointer: int, size: int) -> memoryview:
    """The bytes of the pool at an address."""
    return memoryview((ctypes.c_char * size).from_address(pointer)).cast("B")


def _bytes_of(tensor: Any) -> memoryview:
    """The bytes of a tensor in the host's memory."""
    if hasattr(tensor, "data_ptr"):
        tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
        view = _at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
        # (So the tensor lives for as long as the view does.)
        view.obj._tensor = tensor
        return view
    return memoryview(tensor).cast("B")
