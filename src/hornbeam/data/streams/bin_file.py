"""Bins in a file that is mapped into memory, laid out as kernels read them.

    0        magic number, zeros up to PAGE
    PAGE     bins, (n_rows, stride), row after row as `BinnedData` has them
    ...      arrays: labels, bounds, ...; each begins at a multiple of ALIGNMENT
    ...      directory, JSON: shape, checksums of the bins by chunk, places and checksums of arrays, facts
    end      TRAILER: size of the file, of the directory, checksum of the directory, magic number

What is written last says that the file is whole, so a file that was cut off is known at once. `open_bins` verifies the
size and every checksum before anything is read through the map: reading a page that the file does not have would end
the process. A file is written without a name, or under one of its own, and gets its name when it is whole.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hornbeam.core.cpus import resolve_threads
from hornbeam.core.errors import DataError
from hornbeam.data.binning import ALIGNMENT, MappedBins, allocate_bins

MAGIC = b"HORNBEAM BINS 1\n"
PAGE = 4096
CHUNK_BYTES = 4 << 20
"""Bins that have a checksum together."""

TRAILER = struct.Struct("<QQI16s")

_NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class BinFile(MappedBins):
    """A file of bins, mapped.

    bins       uint8 or uint16 (n_rows, stride), C order, starts on a page. The map is private: nobody writes to it, and
               were it written to, the file would stay as it is
    checksums  CRC-32 of each CHUNK_BYTES of bins
    arrays     what else the file holds, by name
    facts      what is no array
    path       None: the file has no name, and is gone when nobody uses it
    """

    def __init__(self, file: BinaryIO, size: int, directory: Mapping[str, Any], path: str | None) -> None:
        self._map, self._size, self.path = _map(file, size), size, path
        if sys.platform != "win32":  # where a file without a name goes as soon as it is closed, mapped or not
            file.close()
        content = np.frombuffer(self._map, np.uint8)
        n_rows, stride = directory["shape"]
        dtype = np.dtype(directory["dtype"])
        self.bins: NDArray[Any] = content[PAGE : PAGE + n_rows * stride * dtype.itemsize].view(dtype)
        self.bins = self.bins.reshape(n_rows, stride)
        self.checksums: list[int] = directory["checksums"]
        self.facts: dict[str, Any] = directory["facts"]
        self.arrays = {name: _array(content, entry) for name, entry in directory["arrays"].items()}
        self._entries: Mapping[str, Any] = directory["arrays"]

    def check_size(self) -> None:
        """Raise DataError if the file was cut off since it was opened."""
        if self._map.size() < self._size:
            raise DataError(
                f"{self.path or 'the file of bins'} was cut off while it is in use; leave it alone, or open a whole one"
            )

    def verify(self) -> None:
        """Raise DataError where a checksum is another than that of the directory."""
        flat = self.bins.reshape(-1).view(np.uint8)

        def check(number: int) -> bool:
            return checksum(flat[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]) == self.checksums[number]

        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(resolve_threads(0)) as pool:
            sound = list(pool.map(check, range(len(self.checksums))))
        if not all(sound):
            step = CHUNK_BYTES // max(1, self.bins.shape[1] * self.bins.itemsize)
            row = sound.index(False) * step
            raise DataError(f"{self.path} is damaged (bins near row {row} have another checksum); write it anew")
        for name, array in self.arrays.items():
            if checksum(array) != self._entries[name]["checksum"]:
                raise DataError(f"{self.path} is damaged ({name!r} has another checksum); write it anew")

    def __getstate__(self) -> dict[str, Any]:
        """Leave a name: whoever reads the state maps the same file."""
        if self.path is None:
            raise DataError(
                "the bins of this Dataset are in a file without a name, which no other process can open; keep them by "
                "save_binary(path), and pass Dataset(path)"
            )
        return {"path": str(Path(self.path).resolve())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(open_bins(state["path"]).__dict__)


class BinWriter:
    """Writes a file of bins from the first row to the last.

    Parameters
    ----------
    folder
        Where; it is made if it is not there. The file has no name in it, so that nothing is left of a process that
        fails or is killed.
    path
        The name that `finish` gives to the file; None: it never has one.
    n_bytes
        Room that the bins will take: too little of it is an error at once.
    """

    def __init__(self, folder: str | os.PathLike[str], n_bytes: int, path: str | None = None) -> None:
        self._folder, self._path = os.fspath(folder), path
        self._named: str | None = None
        self._shape, self._dtype = (0, 0), "|u1"
        self._checksums: list[int] = []
        self._in_chunk, self._checksum, self._size = 0, 0, 0
        try:
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self._folder).free
            if free < n_bytes:
                raise self._no_room(f"{n_bytes >> 20} MB are needed and {free >> 20} MB are free")
            if path is None:
                self._file: Any = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            else:
                self._named = str(Path(self._folder) / f".{Path(path).name}-{os.urandom(8).hex()}.part")
                self._file = Path(self._named).open("xb", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise DataError(
                f"cache: no file can be written in {self._folder!r} ({error.strerror}); pass a folder that you may "
                "write to"
            ) from None
        self._write(MAGIC.ljust(PAGE, b"\0"))

    def write_bins(self, block: NDArray[Any]) -> None:
        """Write the next rows.

        block  uint8 or uint16 (n, stride)  in  C order
        """
        self._shape, self._dtype = (self._shape[0] + len(block), block.shape[1]), block.dtype.str
        content = block.reshape(-1).view(np.uint8)
        self._write(content)
        while len(content):
            part, content = content[: CHUNK_BYTES - self._in_chunk], content[CHUNK_BYTES - self._in_chunk :]
            self._checksum = checksum(part, self._checksum)
            self._in_chunk += len(part)
            if self._in_chunk == CHUNK_BYTES:
                self._end_chunk()

    def _end_chunk(self) -> None:
        self._checksums.append(self._checksum)
        self._in_chunk = self._checksum = 0

    def finish(
        self, arrays: Mapping[str, NDArray[Any]] | None = None, facts: Mapping[str, Any] | None = None
    ) -> BinFile:
        """Write the rest, give the file its name, and map it."""
        if self._in_chunk:
            self._end_chunk()
        entries = {}
        for name, array in (arrays or {}).items():
            content = np.ascontiguousarray(array)
            flat = content.reshape(-1).view(np.uint8)
            self._write(bytes(-self._size % ALIGNMENT))
            entries[name] = {
                "dtype": content.dtype.str, "shape": content.shape, "offset": self._size, "checksum": checksum(flat)
            }  # fmt: skip
            self._write(flat)
        directory: dict[str, Any] = {
            "shape": self._shape, "dtype": self._dtype, "checksums": self._checksums, "arrays": entries,
            "facts": dict(facts or {}),
        }  # fmt: skip
        text = json.dumps(directory).encode()
        self._write(text)
        self._write(TRAILER.pack(self._size + TRAILER.size, len(text), zlib.crc32(text), MAGIC))
        if self._named is not None and self._path is not None:
            try:
                os.fsync(self._file.fileno())
                self._file.close()
                Path(self._named).replace(self._path)
                self._named, self._file = None, Path(self._path).open("rb")  # noqa: SIM115
            except OSError as error:
                self.discard()
                raise self._no_room(str(error.strerror)) from None
        return BinFile(self._file, self._size, directory, self._path)

    def __enter__(self) -> BinWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        if kind is not None:
            self.discard()

    def discard(self) -> None:
        """Leave nothing of the file."""
        self._file.close()
        if self._named is not None:
            with suppress(OSError):
                Path(self._named).unlink()

    def _write(self, content: Any) -> None:
        left = memoryview(content).cast("B") if len(content) else memoryview(b"")
        try:
            while len(left):
                written = self._file.write(left)
                left, self._size = left[written:], self._size + written
        except OSError as error:
            self.discard()
            if error.errno in _NO_ROOM:
                raise self._no_room(str(error.strerror)) from None
            raise DataError(f"the file of bins in {self._folder!r} cannot be written ({error.strerror})") from None

    def _no_room(self, reason: str) -> DataError:
        return DataError(
            f"the bins do not fit in {self._folder!r} ({reason}); nothing was left there: free some room, or name "
            "a folder on another disk"
        )


def checksum(array: NDArray[Any], before: int = 0) -> int:
    """Return the CRC-32 of an array's bytes, after those that have another one."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, before)


def is_bin_file(path: Any) -> bool:
    """Say whether a path names a file of bins, whole or not."""
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def open_bins(path: str | os.PathLike[str]) -> BinFile:
    """Map a file of bins that was kept, once its size and all checksums are verified; DataError: it is damaged.

    The whole file is read for that, which brings it into the memory of the system's cache as far as it fits.
    """
    name = os.fspath(path)
    with ExitStack() as unfinished:  # the file stays open as long as it is mapped, unless it is refused
        try:
            file = unfinished.enter_context(Path(name).open("rb"))
            size = os.fstat(file.fileno()).st_size
            directory = _read_directory(file, size, name)
            opened = BinFile(file, size, directory, name)
        except OSError as error:
            raise DataError(f"{name!r} cannot be opened ({error.strerror})") from None
        except (KeyError, ValueError, TypeError, IndexError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{name} is damaged ({error}); write it anew") from None
        opened.verify()
        unfinished.pop_all()
    return opened


def _read_directory(file: BinaryIO, size: int, name: str) -> dict[str, Any]:
    cut = DataError(f"{name} is damaged: it is no whole file of bins (cut off, or never finished); write it anew")
    if size < PAGE + TRAILER.size:
        raise cut
    file.seek(size - TRAILER.size)
    whole, length, checksum, magic = TRAILER.unpack(file.read(TRAILER.size))
    if magic != MAGIC or whole != size or length > size - PAGE - TRAILER.size:
        raise cut
    file.seek(size - TRAILER.size - length)
    text = file.read(length)
    if zlib.crc32(text) != checksum:
        raise DataError(f"{name} is damaged (its directory has another checksum); write it anew")
    directory: dict[str, Any] = json.loads(text)
    n_rows, stride = directory["shape"]
    n_bytes = n_rows * stride * np.dtype(directory["dtype"]).itemsize
    if PAGE + n_bytes > size or len(directory["checksums"]) != -(-n_bytes // CHUNK_BYTES):
        raise cut
    return directory


def _array(content: NDArray[np.uint8], entry: Mapping[str, Any]) -> NDArray[Any]:
    """Return a copy of an array of the file."""
    dtype, shape, offset = np.dtype(entry["dtype"]), tuple(entry["shape"]), entry["offset"]
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    array: NDArray[Any] = content[offset : offset + n_bytes].copy().view(dtype).reshape(shape)
    return array


def _map(file: BinaryIO, size: int) -> mmap.mmap:
    """Map a file so that kernels, which are compiled for arrays that can be written to, take it.

    No memory is set aside for pages that somebody might write to: a file may be larger than memory.
    """
    if sys.platform == "win32":
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    unreserved = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0x40)
    return mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE | unreserved, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def row_bytes(n_used: int, dtype: type[np.uint8] | type[np.uint16]) -> int:
    """Return the bytes of a row of bins."""
    return int(allocate_bins(1, n_used, dtype).nbytes)
