"""Tests for the stage of the context that a hook receives."""

from __future__ import annotations

from typing import Any

from nodeagent.contracts.context import NodeContext, RuntimeContext
from nodeagent.hook_context import narrow_context
from nodeagent.testing import make_context


def of_stage(context: RuntimeContext) -> None:
    """Take the context of a stage."""


def of_any(context: Any) -> None:
    """Take a context of any type."""


def of_text(context: str) -> None:
    """Take a text with the name of a context."""


def without(pod: Any) -> None:
    """Take no context."""


def test_context_is_limited_to_the_stage_of_the_hook(tmp_path):
    context = make_context(tmp_path).stage(NodeContext)

    stages = [type(narrow_context(hook, {"context": context})["context"]) for hook in (of_stage, of_any, of_text)]

    assert stages == [RuntimeContext, NodeContext, NodeContext]
    assert narrow_context(of_stage, {"context": context})["context"].hook == "of_stage"


def test_earlier_stage_and_other_arguments_are_unchanged(tmp_path):
    early = make_context(tmp_path).stage(RuntimeContext)

    def later(context: NodeContext) -> None:
        """Take the context of a later stage."""

    later.__annotations__ = {"context": NodeContext}
    assert type(narrow_context(later, {"context": early})["context"]) is RuntimeContext
    assert narrow_context(without, {"pod": 1}) == {"pod": 1}
    assert narrow_context(of_text, {"context": "x"}) == {"context": "x"}
