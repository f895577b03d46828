import os
import tempfile

import pytest

import tombolo


@pytest.fixture
def path():
    """A pod of 64 MiB with large chunks."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "pod")
        tombolo.create(path, "64MiB", hosts=8, chunk="2MiB")
        yield path


@pytest.fixture
def pod(path):
    with tombolo.Pod(path) as pod:
        yield pod
