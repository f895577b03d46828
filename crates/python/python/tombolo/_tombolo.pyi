from collections.abc import Iterable, Iterator
from os import PathLike
from types import TracebackType
from typing import Self, TypeVar, overload

from typing_extensions import Buffer

_Key = str | Buffer
_T = TypeVar("_T")

class Error(Exception):
    """Why an operation on a pod was not done."""

class PodFull(Error):
    """The pod has no room."""

class PodError(Error):
    """The pod cannot be created, opened, joined or used: it is closed, say, or damaged."""

class Poisoned(Error):
    """The value is gone with the memory in which it lay, or with a host."""

class Fenced(Error):
    """The other hosts go on without this one: join again."""

def create(
    path: str | PathLike[str],
    size: int | str,
    *,
    scr: int | str | None = None,
    hosts: int = 16,
    chunk: int | str | None = None,
    rooms: int | None = None,
    force: bool = False,
) -> None:
    """Creates an empty pod with `size` bytes for values."""

class Pod:
    """This process' place in a pod. Threads may share it."""

    def __init__(self, path: str | PathLike[str], *, views: int = 1024) -> None: ...
    def close(self) -> None:
        """Leaves the pod. Raises BufferError while views, rooms or walks of it are open."""
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None: ...
    def put(self, key: _Key, value: Buffer, *, ttl: float | None = None) -> None:
        """Gives a key a value, whatever it had before. `ttl` is in seconds."""
    def add(self, key: _Key, value: Buffer) -> bool:
        """Gives a key a value if it has none; whether it had none."""
    def put_if_version(self, key: _Key, version: int, value: Buffer) -> int | None:
        """Gives a key another value if that which it has is at this version; the new version."""
    def delete_if_version(self, key: _Key, version: int) -> bool:
        """Removes a key if its value is at this version; whether it was."""
    @overload
    def get(self, key: _Key) -> bytes | None: ...
    @overload
    def get(self, key: _Key, default: _T) -> bytes | _T: ...
    def get_into(self, key: _Key, buffer: Buffer) -> int | None:
        """Copies the value of a key into a buffer; its length, or None if there is none."""
    def view(self, key: _Key) -> View:
        """Shows the value of a key where it lies in the pod. Raises KeyError if there is none."""
    def put_many(self, keys: Iterable[_Key], values: Iterable[Buffer]) -> None:
        """Gives several keys a value each, in their order. Raises the first error."""
    def get_many_into(self, keys: Iterable[_Key], buffers: Iterable[Buffer]) -> list[bool]:
        """Copies the values of several keys; whether each has exactly its buffer's length."""
    def exists(self, keys: Iterable[_Key]) -> list[bool]:
        """Whether each of several keys has a value."""
    def delete(self, key: _Key) -> bool:
        """Removes a key; whether it had a value."""
    def keys(self, prefix: _Key | None = None) -> Keys:
        """A walk through all keys that begin with `prefix`, in no order."""
    def reserve(self, key: _Key, size: int) -> Room:
        """Reserves room for a value of `size` bytes, to be filled and published."""
    def stats(self) -> dict[str, int]:
        """Numbers of this host and of the pod, as far as this host knows."""
    def mapping(self) -> tuple[int, int]:
        """Address and length of the memory in which values lie, for device registration."""
    def __contains__(self, key: _Key) -> bool: ...
    def __getitem__(self, key: _Key) -> bytes: ...
    def __setitem__(self, key: _Key, value: Buffer) -> None: ...
    def __delitem__(self, key: _Key) -> None: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __len__(self) -> int: ...

class Keys(Iterator[bytes]):
    """A walk through the keys of a pod."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None:
        """Ends the walk."""

class View:
    """A value where it lies in the pod. It stays as it is, whatever is put or deleted meanwhile."""

    @property
    def version(self) -> int:
        """The version of the value, as put_if_version wants it."""
    @property
    def contiguous(self) -> bool:
        """Whether the value lies in one piece in the pod. If not, this shows a copy."""
    @property
    def nbytes(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None:
        """Ends the view. Raises BufferError while arrays show its bytes."""
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Room:
    """Room in the pod for the value of a key, which no host sees before it is published."""

    @property
    def nbytes(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def write(self, data: Buffer, offset: int = 0) -> None:
        """Copies bytes into the room, from `offset` on."""
    def publish(self, *, new: bool = False) -> int | None:
        """Makes the room the value of its key. With `new`, only if that has none: else None."""
    def close(self) -> None:
        """Gives the room back, unless it was published."""
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
