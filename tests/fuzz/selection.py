"""Selection of the inputs to store: few small ones that execute as many lines as possible."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.target import PRODUCT, Target, check, strict

MAX_FILES = 30
MAX_FILE_BYTES = 2048

Lines = set[tuple[str, int]]


def store(target: Target, working: Path) -> None:
    """Add inputs in *working* to the stored ones of *target*, until no input executes further lines."""
    stored = target.inputs()
    executed: Lines = set()
    for path in stored:
        executed |= lines(target, path.read_bytes())
    candidates = {
        path: lines(target, path.read_bytes()) for path in sorted(working.iterdir(), key=_size) if _fits(path)
    }
    room, before = MAX_FILES - len(stored), len(executed)
    while room > 0 and candidates:
        best = max(candidates, key=lambda path: len(candidates[path] - executed))
        found = candidates.pop(best) - executed
        if not found:
            break
        data = best.read_bytes()
        (target.corpus / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
        executed |= found
        room -= 1
    print(f"{target.name}: {len(target.inputs())} files, {before} → {len(executed)} lines")


def lines(target: Target, data: bytes) -> Lines:
    """Return the lines of the product that *data* executes."""
    executed: Lines = set()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PRODUCT):
            return None
        if event == "line":
            executed.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    with strict():
        check(target, data)  # Lines that only the first call executes do not depend on the input.
        sys.settrace(trace)
        try:
            check(target, data)
        finally:
            sys.settrace(None)
    return executed


def _size(path: Path) -> int:
    return path.stat().st_size


def _fits(path: Path) -> bool:
    return 0 < _size(path) <= MAX_FILE_BYTES
