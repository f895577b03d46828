"""The connectors of vLLM and SGLang, without those: their base classes are stand-ins."""

import ctypes
import dataclasses
import enum
import os
import sys
import types

import numpy as np
import pytest

import tombolo


def stand_in(monkeypatch, name, **contents):
    parts = name.split(".")
    for count in range(1, len(parts)):
        package = ".".join(parts[:count])
        if package not in sys.modules:
            monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    module = types.ModuleType(name)
    module.__dict__.update(contents)
    monkeypatch.setitem(sys.modules, name, module)


@dataclasses.dataclass
class Job:
    job_id: int
    keys: list
    block_ids: np.ndarray


@dataclasses.dataclass
class Result:
    job_id: int
    success: bool


class Manager:
    def __init__(self, offloading_spec, primary_kv_view, tier_type):
        self._primary_kv_view = primary_kv_view
        self.tier_type = tier_type


@pytest.fixture
def vllm(monkeypatch):
    found = enum.Enum("LookupResult", "HIT MISS RETRY")
    stand_in(
        monkeypatch,
        "vllm.v1.kv_offload.base",
        LookupResult=found,
        RequestOffloadingContext=type("RequestOffloadingContext", (), {}),
    )
    stand_in(
        monkeypatch,
        "vllm.v1.kv_offload.tiering.base",
        JobMetadata=Job,
        JobResult=Result,
        SecondaryTierManager=Manager,
    )
    monkeypatch.delitem(sys.modules, "tombolo.vllm", raising=False)
    import tombolo.vllm

    yield tombolo.vllm, found
    sys.modules.pop("tombolo.vllm", None)


def test_blocks_of_two_engines(vllm, path):
    module, found = vllm
    caches = [np.zeros((8, 100_000), dtype=np.int8) for _ in range(2)]
    one, other = (
        module.TomboloTier(None, memoryview(cache), "TomboloTier", pod=path, namespace="model")
        for cache in caches
    )
    caches[0][:] = np.arange(8, dtype=np.int8)[:, None]
    keys = [os.urandom(36) for _ in range(4)]
    assert one.lookup(keys[0], None) == found.MISS
    one.submit_store(Job(1, keys, np.array([3, 4, 5, 6])))
    one.drain_jobs()
    assert one.get_finished_jobs() == [Result(1, True)] and one.get_finished_jobs() == []
    assert [other.lookup(key, None) for key in keys] == [found.HIT] * 4
    other.submit_load(Job(2, keys, np.array([0, 1, 2, 7])))
    other.drain_jobs()
    assert other.get_finished_jobs() == [Result(2, True)]
    assert caches[1][[0, 1, 2, 7], 0].tolist() == [3, 4, 5, 6] and (caches[1][0] == 3).all()
    # What cannot be loaded is a miss from then on, until it is stored anew.
    with tombolo.Pod(path) as pod:
        pod.put(b"model/" + keys[0], b"of another length")
    other.submit_load(Job(3, keys[:1], np.array([0])))
    other.drain_jobs()
    assert other.get_finished_jobs() == [Result(3, False)]
    assert other.lookup(keys[0], None) == found.MISS
    assert one.on_new_request(None) is not None
    one.shutdown()
    other.shutdown()


class Pool:
    """Pages with two parts each."""

    page_size = 2

    def __init__(self, pages):
        self.parts = [np.zeros((pages, 50_000), dtype=np.uint8) for _ in range(2)]

    def get_page_buffer_meta(self, indices):
        pages = [index // self.page_size for index in indices[:: self.page_size]]
        places = [part[page].ctypes.data for page in pages for part in self.parts]
        return places, [50_000] * len(places)


@pytest.fixture
def sglang(monkeypatch):
    stand_in(
        monkeypatch,
        "sglang.srt.mem_cache.hicache_storage",
        HiCacheStorage=type("HiCacheStorage", (), {}),
    )
    monkeypatch.delitem(sys.modules, "tombolo.sglang", raising=False)
    import tombolo.sglang

    yield tombolo.sglang
    sys.modules.pop("tombolo.sglang", None)


def config(path, **changes):
    usual = {
        "tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "is_mla_model": False,
        "model_name": "a/model", "extra_config": {"pod": path},
    }
    return types.SimpleNamespace(**usual | changes)


def test_pages_of_two_servers(sglang, path):
    pools = [Pool(8), Pool(8)]
    one, other, of_another_rank = (
        sglang.TomboloStorage(config(path, tp_rank=rank), {}) for rank in (0, 0, 1)
    )
    one.register_mem_pool_host(pools[0])
    other.register_mem_pool_host(pools[1])
    for number, part in enumerate(pools[0].parts):
        part[:] = (10 * number + np.arange(8, dtype=np.uint8))[:, None]
    keys = ["aa", "bb", "cc"]
    assert other.batch_exists(keys) == 0
    assert one.batch_set_v1(keys, list(range(2, 8))) == [True] * 3
    assert other.batch_exists([*keys, "dd"]) == 3 and other.exists("bb")
    assert of_another_rank.batch_exists(keys) == 0
    assert other.batch_get_v1(["cc", "dd"], [0, 1, 2, 3]) == [True, False]
    assert pools[1].parts[0][0, 7] == 3 and (pools[1].parts[1][0] == 13).all()
    value = np.arange(1000, dtype=np.uint8)
    assert one.set("single", value) and one.batch_set(["more"], [value])
    into = np.zeros(1000, dtype=np.uint8)
    assert other.get("single", into) is into and (into == value).all()
    assert other.get("none", into) is None and other.batch_get(["more"], [into])[0] is into
    one.clear()
    assert other.batch_exists(keys) == 0 and other.get("single", into) is None
    for storage in (one, other, of_another_rank):
        storage.close()


def test_a_storage_without_a_pod_says_so(sglang):
    with pytest.raises(ValueError, match="pod"):
        sglang.TomboloStorage(config("", extra_config=None), {})


def test_addresses_are_bytes(sglang):
    room = (ctypes.c_char * 10)(*b"0123456789")
    assert bytes(sglang._at(ctypes.addressof(room), 10)) == b"0123456789"
