"""Arrays as NumPy writes them, looked at before memory is set aside for them."""

import math
import zipfile
from io import BufferedIOBase
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

# How many bytes a byte of an entry can become, where it is stored as it is, and where it may be
# deflated as well; NumPy does nothing else.
PLAIN = {zipfile.ZIP_STORED: 1}
DEFLATED = PLAIN | {zipfile.ZIP_DEFLATED: 1032}


def read_header(
    file: IO[bytes] | BufferedIOBase, n_bytes: int
) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and type of an array, if they say how long its file is.

    Memory is set aside by the shape, so a false one could ask for any amount.
    """
    begin = file.tell()
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
    except Exception as error:  # NumPy raises whatever a malformed header leads to
        raise ValueError(f"it does not begin as an array ({error})") from error
    needed = file.tell() - begin + math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or needed != n_bytes:
        raise ValueError(f"an array of shape {shape} does not fit in it")
    return shape, dtype


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """Return an array of an archive; its checksum is compared."""
    with archive.open(entry) as file:
        read_header(file, entry.file_size)
    with archive.open(entry) as file:  # anew, since after a seek no checksum is compared
        return npy.read_array(file, allow_pickle=False)


def check_packing(archive: zipfile.ZipFile, ways: dict[int, int]) -> None:
    """Raise where entries say that they unpack to more than a file of this size can hold.

    ``ways`` is `PLAIN` or `DEFLATED`. Entries may lie, and several may claim the same bytes; what
    is read of one is never more than it says.
    """
    entries = archive.infolist()
    there = Path(str(archive.filename)).stat().st_size
    if sum(entry.compress_size for entry in entries) > there:
        raise ValueError("its entries are larger than the file")
    for entry in entries:
        if entry.compress_type not in ways:
            raise ValueError(f"{entry.filename!r} is compressed otherwise than expected")
        if entry.file_size > ways[entry.compress_type] * entry.compress_size:
            raise ValueError(
                f"{entry.filename!r} cannot unpack from {entry.compress_size} bytes to "
                f"{entry.file_size}"
            )
