"""Output of ``nodeagent doctor --cis``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodeagent.cli.cis.items import Result, Status


def lines(results: Sequence[Result]) -> list[str]:
    """Return the results as text, with the remedies of failed items."""
    text = []
    for result in results:
        text.append(f"{result.status:14}  {result.item.id:11}  {result.item.title}")
        if result.status is Status.FAIL:
            text += [f"{'':29}{each}" for each in result.found]
            text.append(f"{'':29}-> {result.item.remedy}")
    counts = {status: sum(result.status is status for result in results) for status in Status}
    text += ["", ", ".join(f"{count} {_LABELS[status]}" for status, count in counts.items())]
    return text


_LABELS = {Status.PASS: "passed", Status.FAIL: "failed", Status.NOT_APPLICABLE: "not applicable"}


def wire(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the results for JSON."""
    return [
        {
            "id": result.item.id,
            "title": result.item.title,
            "automated": result.item.automated,
            "status": result.status.value,
            "found": list(result.found),
            "remedy": result.item.remedy if result.status is Status.FAIL else "",
        }
        for result in results
    ]
