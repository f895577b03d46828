"""Share values among processes and hosts through memory that they map.

>>> import tombolo
>>> tombolo.create("/dev/shm/pod", "64MiB")
>>> with tombolo.Pod("/dev/shm/pod") as pod:
...     pod.put("greeting", b"hello")
...     pod["greeting"]
b'hello'
"""

from ._tombolo import (
    Error,
    Fenced,
    Keys,
    Pod,
    PodError,
    PodFull,
    Poisoned,
    Room,
    View,
    create,
)

__all__ = [
    "Error",
    "Fenced",
    "Keys",
    "Pod",
    "PodError",
    "PodFull",
    "Poisoned",
    "Room",
    "View",
    "create",
]
