"""A disk in memory that forgets like a real one: what was not synced may be lost or torn after a crash.

It keeps contents and names twice: as programs see them, and as a power cut would leave them.
`MemoryFile.sync` copies one file's contents over, `sync_directory` one directory's names.  `crash` throws the
first copy away and continues from the second, plus an arbitrary part of the unsynced rest.

Faults, all off until requested: an operation that fails (`fail`), a full disk (`full_after`), a crash at the
n-th step that changes something (`crash_at`), a flipped byte (`corrupt`).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Final, Literal

from barnabas.errors import MissingFileError, StorageError
from barnabas.ports import Buffer

__all__ = ["Crashed", "MemoryDisk", "MemoryFile", "MemoryLock"]

Loss = Literal["all", "some", "none", "kill"]
_SECTOR: Final = 512
QUIET: Final = ("barnabas-synced-end",)
"""Files that a disk keeps by luck of their own: no step, no room, no draw is spent on them."""


class Crashed(BaseException):
    """The power went.  No code catches it by accident; the disk is used again after `MemoryDisk.crash`."""


class _Inode:
    """Content as written, and what of it is durable."""

    __slots__ = ("data", "durable", "generation", "low", "luck", "modified_ms", "reading")

    def __init__(self, modified_ms: int, luck: random.Random | None = None) -> None:
        self.luck = luck
        """What it draws from in a crash, if not from what all files draw from."""
        self.data = bytearray()
        self.durable = bytearray()
        self.low = 0
        """Bytes from here on may differ between the two."""
        self.modified_ms = modified_ms
        self.generation = 0
        """Times that durable bytes were taken back or changed: what was read of them is void."""
        self.reading: object = None
        """What an onlooker has made of the durable content so far."""

    def sync(self) -> None:
        if self.low < len(self.durable):
            self.generation += 1
        self.durable[self.low :] = self.data[self.low :]
        self.low = len(self.data)

    def crash(self, loss: Loss, rng: random.Random) -> None:
        """Keep the durable content; with "some", a prefix of the unsynced rest, a sector of it perhaps junk."""
        self.generation += 1
        rng = self.luck or rng
        if loss == "some":
            rest = bytes(self.data[self.low :])
            kept = rng.randint(0, len(rest))
            if rng.random() < 0.5:
                del self.durable[self.low :]  # the disk had got round to a truncation
            if kept and len(self.durable) <= self.low:
                self.durable[self.low :] = rest[:kept]
                torn = rng.random()
                if torn < 0.3:
                    self.durable[-min(kept, _SECTOR) :] = bytes(min(kept, _SECTOR))
                elif torn < 0.5 and kept > _SECTOR:
                    hole = self.low + rng.randrange(kept - _SECTOR)
                    self.durable[hole : hole + _SECTOR] = bytes(_SECTOR)
        elif loss == "none":
            self.sync()
        self.data = bytearray(self.durable)
        self.low = len(self.data)


class _Directory:
    """Names as programs see them, the changes since the last sync (each atomic), and the durable names."""

    __slots__ = ("changes", "durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}
        self.changes: list[dict[str, _Inode | _Directory | None]] = []

    def change(self, names: dict[str, _Inode | _Directory | None], *, quiet: bool = False) -> None:
        _apply(self.names, names)
        if quiet:
            _apply(self.durable, names)
        else:
            self.changes.append(names)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.changes.clear()

    def crash(self, loss: Loss, rng: random.Random) -> None:
        kept = {"all": 0, "none": len(self.changes), "some": rng.randint(0, len(self.changes))}[loss]
        for change in self.changes[:kept]:
            _apply(self.durable, change)
        self.names = dict(self.durable)
        self.changes.clear()
        for node in self.names.values():
            node.crash(loss, rng)


def _apply(names: dict[str, _Inode | _Directory], change: dict[str, _Inode | _Directory | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class MemoryFile:
    """An open file of a MemoryDisk; stale after a crash, refusing everything after a failed sync."""

    __slots__ = ("_crashes", "_disk", "_inode", "_open", "_refusal", "path")

    def __init__(self, disk: MemoryDisk, path: str, inode: _Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._crashes = disk.crashes
        self._open = True
        self._refusal: StorageError | None = None

    def __repr__(self) -> str:
        return f"<MemoryFile {self.path} size={len(self._inode.data)}>"

    def _check(self, operation: str) -> None:
        if self._refusal is not None:
            raise self._refusal
        if not self._open or self._crashes != self._disk.crashes:
            raise StorageError(f"{self.path} is closed")
        self._disk.step(operation, self.path)

    def append(self, parts: Sequence[Buffer]) -> int:
        self._check("append")
        data = b"".join(parts)
        self._disk.take_space(self.path, len(data))
        self._inode.data += data
        self._inode.modified_ms = self._disk.wall_ms
        return len(data)

    def read_at(self, position: int, size: int) -> bytes:
        self._check("read")
        return bytes(self._inode.data[position : position + size])

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        del self._inode.data[size:]
        self._inode.low = min(self._inode.low, size)

    def sync(self) -> None:
        try:
            self._check("sync")
        except StorageError as error:
            self._refusal = error
            raise
        if not self._disk.lies_of(self.path):
            self._inode.sync()

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._open = False


class MemoryLock:
    """A held lock file."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self.path = path
        self._disk = disk

    def release(self) -> None:
        self._disk.locks.discard(self.path)


class MemoryDisk:
    """Files and directories in memory.  `seed` decides what a crash with loss "some" leaves."""

    def __init__(self, seed: int = 0, *, wall_ms: int = 0) -> None:
        self.wall_ms = wall_ms
        """What files are stamped with."""
        self.crashes = 0
        """Crashes so far: files opened before the last one are stale."""
        self.steps = 0
        """Steps so far that changed something (what `crash_at` counts)."""
        self.locks: set[str] = set()
        self.lying = False
        """Whether syncs say that they are done, and do nothing."""
        self.honest: tuple[str, ...] = ()
        """Parts of the paths of files of which a sync does what it says even so."""
        self.quiet: tuple[str, ...] = QUIET
        """Parts of the paths of files with luck of their own: histories from before them stay the same."""
        self.on_step: Callable[[str, str], None] | None = None
        """Called with (operation, path) before each step that changes something."""
        self._root = _Directory()
        self._seed = seed
        self._rng = random.Random(seed)
        self._crash_at = -1
        self._failing: dict[tuple[str, str], str] = {}
        self._space: int | None = None

    def __repr__(self) -> str:
        return f"<MemoryDisk crashes={self.crashes} steps={self.steps}>"

    # --- faults -------------------------------------------------------------------------------------------

    def crash(self, loss: Loss = "all") -> None:
        """The power goes and comes back.

        loss "all": everything unsynced is gone; "some": parts of it survive, chosen by the seed; "none":
        everything was durable.  "kill": only the process died; what it wrote is there to read,
        and a power cut may take it yet.
        """
        self.crashes += 1
        self.locks.clear()
        self._crash_at = -1
        if loss != "kill":
            self._root.crash(loss, self._rng)

    def crash_at(self, step: int) -> None:
        """Raise `Crashed` instead of doing step number `step` (0: the next one).  `crash` disarms it."""
        self._crash_at = self.steps + step

    def fail(self, operation: str, path: str = "", reason: str = "Input/output error") -> None:
        """From now on `operation` (append, read, truncate, sync, open, rename, ...) fails where `path` is part."""
        self._failing[operation, path] = reason

    def heal(self) -> None:
        """No operation fails any more, and there is space."""
        self._failing.clear()
        self._space = None

    @property
    def troubled(self) -> bool:
        """Whether an operation may fail just now."""
        return bool(self._failing) or self._space is not None

    def full_after(self, size: int) -> None:
        """Appends fail once `size` more bytes are written."""
        self._space = size

    def clone(self) -> MemoryDisk:
        """What a copy of the durable content, taken now, would be: another disk."""
        listener, self.on_step = self.on_step, None
        try:
            copied = copy.deepcopy(self)
        finally:
            self.on_step = listener
        copied.heal()
        copied.crash("all")
        return copied

    def corrupt(self, path: str, position: int, *, flip: int = 0xFF) -> None:
        """Bit rot: flip bits of one byte, of the durable content too."""
        inode = self._inode(path)
        inode.data[position] ^= flip
        inode.generation += 1
        if position < len(inode.durable):
            inode.durable[position] = inode.data[position]

    def peek(self, path: str) -> bytes:
        """What a file holds, for who lies about it: no step, and no operation that may fail."""
        return bytes(self._inode(path).data)

    def rewrite(self, path: str, content: bytes) -> None:
        """Put other content in the place of what a file holds, durably, behind the back of who has it open."""
        inode = self._inode(path)
        inode.data[:] = content
        inode.durable[:] = content
        inode.low = len(content)
        inode.generation += 1

    def durable_file(self, path: str) -> _Inode | None:
        """The file that a power cut now would leave under this name; None: there would be none."""
        node: _Inode | _Directory | None = self._root
        for name in _names(path):
            if not isinstance(node, _Directory):
                return None
            node = node.durable.get(name)
        return node if isinstance(node, _Inode) else None

    def durable_names(self, path: str) -> list[str]:
        """The names in a directory that a power cut now would leave, sorted."""
        node: _Inode | _Directory | None = self._root
        for name in _names(path):
            node = node.durable.get(name) if isinstance(node, _Directory) else None
        return sorted(node.durable) if isinstance(node, _Directory) else []

    def put(self, path: str, content: bytes) -> None:
        """Plant a file, durably (foreign files, fixtures)."""
        directory = path.rpartition("/")[0]
        self.make_directories(directory)
        self.replace(path, content)
        while directory := directory.rpartition("/")[0]:
            self.sync_directory(directory)
        self._root.sync()

    def step(self, operation: str, path: str) -> None:
        """One operation begins: the place where faults strike."""
        if self._is_quiet(path):
            return
        for (kind, part), reason in self._failing.items():
            if kind == operation and part in path:
                raise StorageError(f"cannot {operation} {path}: {reason}")
        if operation == "read":
            return
        if self.steps == self._crash_at:
            raise Crashed(f"{operation} {path}")
        self.steps += 1
        if self.on_step is not None:
            self.on_step(operation, path)

    def _is_quiet(self, path: str) -> bool:
        return any(part in path for part in self.quiet)

    def take_space(self, path: str, size: int) -> None:
        if self._space is not None and not self._is_quiet(path):
            if size > self._space:
                raise StorageError(f"cannot append to {path}: No space left on device", full=True)
            self._space -= size

    # --- the door -----------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if isinstance(node, _Directory):
            raise StorageError(f"cannot open {path}: Is a directory")
        if node is None:
            if not create:
                raise MissingFileError("open", path)
            self.step("open", path)
            quiet = self._is_quiet(path)
            node = _Inode(self.wall_ms, random.Random(f"{self._seed} {path}") if quiet else None)
            directory.change({name: node}, quiet=quiet)
        return MemoryFile(self, path, node)

    def read(self, path: str) -> bytes:
        self.step("read", path)
        return bytes(self._inode(path).data)

    def replace(self, path: str, content: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append([content])
        file.sync()
        self.rename(temporary, path)
        if not self._is_quiet(path):
            self.sync_directory(path.rpartition("/")[0])

    def rename(self, source: str, target: str) -> None:
        directory, name = self._parent(source)
        other, new_name = self._parent(target)
        node = directory.names.get(name)
        if node is None:
            raise StorageError(f"cannot rename {source}: No such file or directory")
        if other is not directory:
            raise StorageError(f"cannot rename {source}: it would change directories")
        self.step("rename", source)
        directory.change({name: None, new_name: node}, quiet=self._is_quiet(source))

    def remove(self, path: str) -> None:
        self._inode(path)
        directory, name = self._parent(path)
        self.step("remove", path)
        directory.change({name: None}, quiet=self._is_quiet(path))

    def remove_tree(self, path: str) -> None:
        directory, name = self._parent(path)
        if name not in directory.names:
            raise StorageError(f"cannot remove {path}: No such file or directory")
        self.step("remove", path)
        directory.change({name: None})

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def list(self, path: str) -> list[str]:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise StorageError(f"cannot list {path}: No such directory")
        self.step("read", path)
        return sorted(node.names)

    def make_directories(self, path: str) -> None:
        node = self._root
        for name in _names(path):
            child = node.names.get(name)
            if isinstance(child, _Inode):
                raise StorageError(f"cannot create {path}: {name} is a file")
            if child is None:
                self.step("create", path)
                child = _Directory()
                node.change({name: child})
            node = child

    def sync_directory(self, path: str) -> None:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise StorageError(f"cannot sync {path}: No such directory")
        self.step("sync", path)
        if not self.lies_of(path):
            node.sync()

    def lies_of(self, path: str) -> bool:
        """Return whether a sync of this file does nothing."""
        return self.lying and not any(part in path for part in self.honest)

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        self._inode(path).modified_ms = wall_ms

    def free_bytes(self, path: str) -> int:
        return self._space if self._space is not None else 1 << 40

    def total_bytes(self, path: str) -> int:
        return 1 << 41

    def lock(self, path: str) -> MemoryLock:
        if path in self.locks:
            raise StorageError(
                f"{path} is locked by another node: a node is running on this directory",
                directory=path.rpartition("/")[0],
                fatal=True,
            )
        self.open(path, create=True)
        self.locks.add(path)
        return MemoryLock(self, path)

    # --- paths --------------------------------------------------------------------------------------------

    def _find(self, path: str) -> _Inode | _Directory | None:
        node: _Inode | _Directory | None = self._root
        for name in _names(path):
            if not isinstance(node, _Directory):
                return None
            node = node.names.get(name)
        return node

    def _inode(self, path: str) -> _Inode:
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise MissingFileError("read", path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        directory, _, name = path.rpartition("/")
        node = self._find(directory)
        if not isinstance(node, _Directory):
            raise StorageError(f"cannot open {path}: No such file or directory")
        return node, name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]
