"""Tests for the release of mapped files."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from nodeagent.base import mapped_files

_MAPPINGS = """
import ctypes, mmap, sys
from pathlib import Path
from nodeagent.base.mapped_files import release_unchanged_pages

MIB = 1 << 20
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
file = open(sys.argv[1], "r+b")
unchanged = mmap.mmap(file.fileno(), 4 * MIB, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
adapted = mmap.mmap(file.fileno(), 4 * MIB, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
adapted[:4] = b"new "
address = ctypes.addressof(ctypes.c_char.from_buffer(adapted))
libc.mprotect(address, 4 * MIB, mmap.PROT_READ)  # As the loader does once it has adapted addresses.
writable = mmap.mmap(file.fileno(), 4 * MIB, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
writable[:4] = b"new "

def pages():
    return sum(len(mapping[::4096]) for mapping in (unchanged, adapted, writable))

def resident():
    sizes = []
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.endswith(sys.argv[1]):
            sizes.append(0)
        elif sizes and line.startswith("Rss:"):
            sizes[-1] += int(line.split()[1])
            if len(sizes) == 3:
                return sum(sizes) >> 10

pages()
before = resident()
release_unchanged_pages()
print(before, resident(), unchanged[:4], adapted[:4], writable[:4], pages())
"""


def test_unchanged_pages_are_released_and_changed_ones_retained(tmp_path: Path) -> None:
    file = tmp_path / "library"
    file.write_bytes(b"old " * (1 << 20))
    process = subprocess.run([sys.executable, "-c", _MAPPINGS, str(file)], capture_output=True, text=True, check=True)
    assert process.stdout == "12 8 b'old ' b'new ' b'new ' 3072\n"


_CODE = """
import grpc, json, ssl
from nodeagent.base.malloc import resident_bytes
from nodeagent.base.mapped_files import release_unchanged_pages

before = resident_bytes()
release_unchanged_pages()
print((before - resident_bytes()) >> 20)
ssl.create_default_context()
with grpc.insecure_channel("unix:/absent"):
    assert json.loads("[1]") == [1]
"""


def test_process_continues_after_the_release_of_its_code() -> None:
    process = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert int(process.stdout) >= 5


def test_system_without_a_list_of_mappings_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mapped_files, "_SMAPS", tmp_path / "absent")
    mapped_files.release_unchanged_pages()


_SMAPS = """\
1000-2000 r-xp 00000000 fe:00 17                         /usr/lib/first library.so
Rss:                   4 kB
Anonymous:             0 kB
2000-3000 r--p 00001000 fe:00 17                         /usr/lib/first library.so
Anonymous:             4 kB
3000-4000 r--p 00000000 00:00 0
Anonymous:             0 kB
4000-5000 rw-p 00002000 fe:00 17                         /usr/lib/first library.so
Anonymous:             0 kB
5000-6000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
6000-8000 r--s 00000000 fe:00 18                         /usr/lib/second.so
Anonymous:             0 kB
"""


def test_only_read_only_files_are_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[tuple[int | None, int, int]] = []

    class Library:
        def madvise(self, start: ctypes.c_void_p, size: ctypes.c_size_t, advice: int) -> None:
            calls.append((start.value, size.value, advice))

    smaps = tmp_path / "smaps"
    smaps.write_text(_SMAPS)
    monkeypatch.setattr(mapped_files, "_SMAPS", smaps)
    monkeypatch.setattr(mapped_files, "libc", Library)
    mapped_files.release_unchanged_pages()
    assert calls == [(0x1000, 0x1000, 4), (0x6000, 0x2000, 4)]
