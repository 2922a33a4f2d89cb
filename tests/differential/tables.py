"""Tables in responses, without what differs from one run to the next. No I/O."""

from __future__ import annotations

import re
from typing import Any

from tests.differential.edits import Json
from tests.differential.runner import normalize as normalize_object

_AGE = re.compile(r"\d{1,3}s|\dm\d*s?|\dy(?:\d+d)?|<invalid>")
"""Ages of objects that were just created, and of times in 2024, but no constant durations such as ``24h``."""
_AGO = re.compile(r"\(\S+ ago\)")
_ADDRESS = re.compile(r"10\.96\.0\.\d+")
_NODE_PORT = re.compile(r":3\d{4}/")
_PRESENT = ("name", "type", "format", "priority")


def normalize(table: Json) -> Json:
    """Return the metadata, the columns and the rows of *table*.

    Descriptions of columns are texts for people: only those of upstream would be equal.
    """
    definitions = table.get("columnDefinitions")
    metadata = {name: "<some>" if name != "remainingItemCount" else value for name, value in table["metadata"].items()}
    return {
        "kind": "Table",
        "apiVersion": table["apiVersion"],
        "metadata": metadata,
        "columns": definitions and [[column.get(name) for name in _PRESENT] for column in definitions],
        "described": bool(definitions) and all("description" in column for column in definitions),
        "rows": [_row(row) for row in table["rows"]] if table.get("rows") is not None else None,
    }


def _row(row: Json) -> Json:
    cells = [_cell(cell) for cell in row["cells"]]
    found = {**row, "cells": cells}
    if row.get("object"):
        found["object"] = normalize_object(row["object"])
    return found


def _cell(cell: Any) -> Any:
    """Return a cell without ages, allocated addresses and times."""
    if not isinstance(cell, str):
        return cell
    if _AGE.fullmatch(cell):
        return "<age>"
    if re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", cell):
        return "<time>"
    return _NODE_PORT.sub(":<port>/", _ADDRESS.sub("<address>", _AGO.sub("(<age> ago)", cell)))
