"""Stage of the plugin context that a provider hook receives, as annotated in its specification. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

from nodeagent import hookspecs
from nodeagent.contracts.context import ConfigContext


def narrow_context(hook: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *arguments* with the context limited to the stage of *hook*, so that no later component is available."""
    context = arguments.get("context")
    if not isinstance(context, ConfigContext):
        return arguments
    stage = _stage_of(hook)
    if stage is None or not isinstance(context, stage):
        stage = type(context)
    return {**arguments, "context": context.stage(stage, hook=hook)}


@cache
def _stage_of(hook: str) -> type[ConfigContext] | None:
    stage = get_type_hints(getattr(hookspecs, hook)).get("context")
    return stage if isinstance(stage, type) and issubclass(stage, ConfigContext) else None
