"""Stage of the plugin context that a provider hook receives, as annotated in its specification. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from nodeagent.contracts.context import ConfigContext


def narrow_context(specification: Callable[..., Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *arguments* with the context limited to the stage of a hook, so that no later component is available."""
    context = arguments.get("context")
    if not isinstance(context, ConfigContext):
        return arguments
    stage = _stage_of(specification)
    if stage is None or not isinstance(context, stage):
        stage = type(context)
    return {**arguments, "context": context.stage(stage, hook=specification.__name__)}


@cache
def _stage_of(specification: Callable[..., Any]) -> type[ConfigContext] | None:
    stage = get_type_hints(specification).get("context")
    return stage if isinstance(stage, type) and issubclass(stage, ConfigContext) else None
