"""Image records on disk: times of detection and last use, which persist across restarts."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from nodeagent_plugins.image_gc.selection import Record

_log = logging.getLogger(__name__)

FILE_NAME = "image_gc_state.json"


def load(root: Path) -> dict[str, Record]:
    """Return the stored records by image ID; empty if the file is unreadable. Blocks."""
    path = root / FILE_NAME
    try:
        content = json.loads(path.read_bytes())
        return {str(id): Record(float(first), float(used)) for id, (first, used) in content["images"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        _log.warning(
            "Failed to read image records, starting with empty records", extra={"path": str(path), "err": str(error)}
        )
        return {}


def save(root: Path, records: Mapping[str, Record]) -> None:
    """Replace the file atomically; a failure is logged. Blocks."""
    path = root / FILE_NAME
    aside = path.with_name(f"{FILE_NAME}.tmp")
    content = {"images": {id: [record.first_seen, record.last_used] for id, record in records.items()}}
    try:
        aside.write_text(json.dumps(content))
        aside.chmod(0o640)
        aside.replace(path)
    except OSError as error:
        _log.warning("Failed to write image records", extra={"path": str(path), "err": str(error)})
