"""The real disk: files behind the `Disk` interface, on POSIX.

Appends are gathered (`writev`), syncs are `fdatasync`, and locks are the POSIX record locks that Apache Kafka
takes too, so that two brokers of either kind never share a directory.  After a failed sync the kernel may
have dropped the dirty pages and called them clean; nobody can tell what is on the disk.  So such a file
answers every later call with the same StorageError and is never synced again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator, Sequence

from barnabas.errors import MissingFileError, StorageError
from barnabas.ports import Buffer

__all__ = ["OsDisk", "OsFile", "OsLock"]

_MAX_PARTS = max(16, os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024)
_fdatasync = getattr(os, "fdatasync", os.fsync)

_NEXT_STEPS = {
    errno.ENOSPC: "free space on that disk or lower the retention of a topic",
    errno.EDQUOT: "raise the disk quota of this user or lower the retention of a topic",
    errno.EROFS: "remount the file system writable and look for disk errors in the kernel's log",
    errno.EACCES: "give this user read and write access to the directory",
    errno.EPERM: "give this user read and write access to the directory",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files (fs.file-max)",
    errno.EIO: "check the disk: the kernel reports an input/output error",
}


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


def _failure(doing: str, path: str, error: OSError, *, final: bool = False) -> StorageError:
    """`final`: even where there was only no room, what the file holds cannot be told any more."""
    if error.errno == errno.ENOENT:
        return MissingFileError(doing, path)
    reason = error.strerror or str(error)
    step = _NEXT_STEPS.get(error.errno or 0)
    descriptors = not final and error.errno in _NO_DESCRIPTOR
    full = descriptors or (not final and error.errno in _NO_ROOM)
    return StorageError(
        f"cannot {doing} {path}: {reason}", next_step=step, full=full, descriptors=descriptors
    )


@contextlib.contextmanager
def _storage(doing: str, path: str, *, final: bool = False) -> Iterator[None]:
    """Turn every OSError of the block into a StorageError that names what was done, where and why not."""
    try:
        yield
    except OSError as error:
        raise _failure(doing, path, error, final=final) from error


class OsFile:
    """An open file that is appended to at its end, cut, or read at a position."""

    __slots__ = ("_fd", "_guard", "_refusal", "_size", "path")

    def __init__(self, path: str, fd: int, size: int) -> None:
        self.path = path
        self._fd = fd
        self._size = size
        self._refusal: StorageError | None = None
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        state = "failed" if self._refusal else "closed" if self._fd < 0 else "open"
        return f"<OsFile {self.path} {state} size={self._size}>"

    def append(self, parts: Sequence[Buffer]) -> int:
        """Write the parts after the end, in as few `writev` calls as the kernel allows.

        Returns the bytes written.  On an error the file is cut back to where it ended, so that no torn
        batch stays in the middle; if even that fails the file refuses everything from then on.
        """
        if self._refusal is not None or self._fd < 0:
            self._check()
        count = len(parts)
        total = len(parts[0]) if count == 1 else sum(map(len, parts))
        try:
            if count > _MAX_PARTS:
                for first in range(0, len(parts), _MAX_PARTS):
                    self._write_all(parts[first : first + _MAX_PARTS])
            elif total:
                written = os.writev(self._fd, parts)
                if written != total:
                    self._write_rest(parts, written)
        except OSError as error:
            self._cut_back(error)
            raise self._refusal or _failure("write to", self.path, error) from error
        self._size += total
        return total

    def _write_all(self, parts: Sequence[Buffer]) -> None:
        if (written := os.writev(self._fd, parts)) != sum(map(len, parts)):
            self._write_rest(parts, written)

    def _write_rest(self, parts: Sequence[Buffer], written: int) -> None:
        for part in parts:
            view = memoryview(part).cast("B")
            if written >= len(view):
                written -= len(view)
                continue
            view = view[written:]
            written = 0
            while view:
                view = view[os.write(self._fd, view) :]

    def _cut_back(self, cause: OSError) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._refusal = _failure("write to", self.path, cause, final=True)

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes at `position`; fewer only at the end of the file."""
        self._check()
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size or not data:
                return data
            chunks = [data]
            got = len(data)
            while got < size and (data := os.pread(self._fd, size - got, position + got)):
                chunks.append(data)
                got += len(data)
        except OSError as error:
            raise _failure("read", self.path, error) from error
        return b"".join(chunks)

    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; a no-op when it is shorter already."""
        self._check()
        if size >= self._size:
            return
        with _storage("truncate", self.path, final=True):
            os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        """Make everything written so far durable (any thread).  A failure is final for this file.

        It works on a descriptor of its own: `close` frees ours at once and always in the loop's thread, so
        that no descriptor is another file's while a sendfile is under way with it.
        """
        with self._guard:
            self._check()
            try:
                fd = os.dup(self._fd)
            except OSError:  # no descriptor is left: let `close` wait for this sync
                self._sync(self._fd)
                return
        try:
            self._sync(fd)
        finally:
            os.close(fd)

    def _sync(self, fd: int) -> None:
        try:
            _fdatasync(fd)
        except OSError as error:
            self._refusal = _failure("sync", self.path, error, final=True)
            raise self._refusal from error

    def fileno(self) -> int:
        """The descriptor, for sendfile."""
        self._check()
        return self._fd

    def close(self) -> None:
        """Close without syncing.  A sync running in another thread goes on."""
        with self._guard:
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _check(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._fd < 0:
            raise StorageError(f"{self.path} is closed")

    def __del__(self) -> None:
        if os is not None:  # when the interpreter ends, modules may be gone first: then the kernel closes
            self._close()


_locked_here: set[str] = set()
"""Lock files held by this process: record locks do not exclude the process that holds them."""


class OsLock:
    """A held `.lock` file."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def __repr__(self) -> str:
        return f"<OsLock {self.path} {'held' if self._fd >= 0 else 'released'}>"

    def release(self) -> None:
        """Give the lock back; the file stays (removing it would race with the next holder)."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _locked_here.discard(self.path)
            os.close(fd)


class OsDisk:
    """Files and directories of the operating system."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<OsDisk>"

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> OsFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
        with _storage("open", path):
            fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o644)
            return OsFile(path, fd, os.fstat(fd).st_size)

    def read(self, path: str) -> bytes:
        with _storage("read", path), open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, content: bytes) -> None:
        temporary = path + ".tmp"
        with _storage("write", path):
            fd = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o644
            )
            try:
                view = memoryview(content)
                while view:
                    view = view[os.write(fd, view) :]
                os.fsync(fd)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)  # a full disk needs the room
                raise
            finally:
                os.close(fd)
            os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def rename(self, source: str, target: str) -> None:
        with _storage("rename", source):
            os.rename(source, target)

    def remove(self, path: str) -> None:
        with _storage("remove", path):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with _storage("remove", path):
            shutil.rmtree(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list(self, path: str) -> list[str]:
        with _storage("list", path):
            return sorted(os.listdir(path))

    def make_directories(self, path: str) -> None:
        with _storage("create", path):
            os.makedirs(path, mode=0o700, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        with _storage("open", path):
            fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            with _storage("sync", path, final=True):
                os.fsync(fd)
        finally:
            os.close(fd)

    def size(self, path: str) -> int:
        with _storage("look at", path):
            return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        with _storage("look at", path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, wall_ms: int) -> None:
        with _storage("touch", path):
            os.utime(path, ns=(wall_ms * 1_000_000, wall_ms * 1_000_000))

    def free_bytes(self, path: str) -> int:
        with _storage("look at", path):
            status = os.statvfs(path)
            return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        with _storage("look at", path):
            status = os.statvfs(path)
            return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> OsLock:
        real = os.path.realpath(path)
        if real in _locked_here:
            raise _locked(path, "another node in this process")
        with _storage("lock", path):
            fd = os.open(real, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise _locked(path, f"process {holder}" if holder else "another process") from error
            raise _failure("lock", path, error) from error
        _locked_here.add(real)
        with _storage("write to", path):
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode(), 0)
        return OsLock(real, fd)


def _locked(path: str, holder: str) -> StorageError:
    return StorageError(
        f"{path} is locked by {holder}: a node is running on this directory",
        directory=os.path.dirname(path),
        next_step="stop that node, or give this one another directory (log.dirs)",
        fatal=True,
    )
