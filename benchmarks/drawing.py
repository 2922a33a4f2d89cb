"""Charts in an SVG file; equal charts result in equal files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS, _WIDTH, _HEIGHT = 4, 3.2, 2.3


def save(file: Path, charts: Sequence[Callable[[Axes], None]]) -> None:
    """Write *charts*, each of which draws on the axes that it is called with."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    rows = -(-len(charts) // _COLUMNS)
    with mpl.rc_context({"svg.hashsalt": "nodeagent", "svg.fonttype": "none", "font.size": 7}):
        drawing = Drawing(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT), layout="constrained")
        axes = drawing.subplots(rows, _COLUMNS, squeeze=False).ravel()
        for axis, draw in zip(axes, charts, strict=False):
            draw(axis)
        for axis in axes[len(charts) :]:
            axis.remove()
        drawing.savefig(file, metadata={"Date": None, "Creator": None})
