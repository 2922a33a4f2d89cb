"""Judges the hooks of a plugin: do they exist, are they called as they are written, have settings a schema."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from nodeagent.authoring.findings import Finding, Rule
from nodeagent.authoring.hook_signatures import PREFIX, HookSignature, known_hooks, nearest
from nodeagent.authoring.source import HookImplementation, Module

_SCHEMA_HOOK = "nodeagent_settings_schema"
_OPTIONS = {"tryfirst", "trylast"}


def check_hooks(modules: Sequence[Module]) -> Iterator[Finding]:
    """Yield what is wrong with each implementation, and that there is none."""
    hooks = known_hooks()
    found = False
    for module in modules:
        for implementation in module.hook_implementations(PREFIX):
            found = found or implementation.marked
            for line, rule, message in _judge(implementation, hooks):
                yield Finding(module.file, line, rule, message)
    if modules and not found:
        yield Finding(modules[0].file, 1, Rule.NO_HOOKS, "nothing is marked with @hookimpl, so nothing is ever called")


def _judge(implementation: HookImplementation, hooks: Mapping[str, HookSignature]) -> Iterator[tuple[int, Rule, str]]:
    node = implementation.node
    hook = hooks.get(node.name)
    if not implementation.marked:
        if hook is not None:
            yield node.lineno, Rule.UNMARKED_HOOK, f"{node.name} lacks @hookimpl and is never called"
        return
    for option, line in implementation.options.items():
        if option not in _OPTIONS:
            yield line, Rule.HOOK_OPTION, f"@hookimpl takes tryfirst and trylast here, not {option}"
    if hook is None:
        yield node.lineno, Rule.UNKNOWN_HOOK, f"{node.name} is no hook{nearest(node.name, hooks)}"
        return
    if hook.is_async != isinstance(node, ast.AsyncFunctionDef):
        wanted = "an async def: the agent awaits it" if hook.is_async else "a plain def: it is called once at start"
        yield node.lineno, Rule.ASYNC, f"{node.name} must be {wanted}"
    yield from _judge_arguments(implementation, hook)


def _judge_arguments(implementation: HookImplementation, hook: HookSignature) -> Iterator[tuple[int, Rule, str]]:
    arguments = implementation.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in implementation.node.decorator_list)
    if implementation.method and not static:
        positional = positional[1:]
    defaults = len(arguments.defaults)
    with_default = positional[-defaults:] if defaults else []
    has = ", ".join(hook.arguments) or "none"
    for argument in positional:
        if argument.arg not in hook.arguments:
            if argument not in with_default:
                hint = nearest(argument.arg, hook.arguments) or f"; it has: {has}"
                yield argument.lineno, Rule.ARGUMENT, f'{hook.name} has no argument "{argument.arg}"{hint}'
        elif argument in with_default:
            yield (
                argument.lineno,
                Rule.ARGUMENT,
                f'"{argument.arg}" has a default and is therefore never passed to {hook.name}; leave the default out',
            )
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None or argument.arg in hook.arguments:
            message = f'"{argument.arg}" stands behind a * and is never passed; arguments of {hook.name}: {has}'
            yield argument.lineno, Rule.ARGUMENT, message


def check_settings(modules: Sequence[Module], names: Mapping[str, int] | None) -> Iterator[Finding]:
    """Yield settings that are read without a schema, or under a name that is not the plugin's.

    :param names: the names of the plugins of this distribution; ``None`` when nobody knows them.
    """
    has_schema = any(
        implementation.marked and implementation.node.name == _SCHEMA_HOOK
        for module in modules
        for implementation in module.hook_implementations(PREFIX)
    )
    for module in modules:
        strings = module.strings()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr == "plugin_settings" and not has_schema:
                message = f"settings are read, but no {_SCHEMA_HOOK} declares them: the agent refuses such settings"
                yield Finding(module.file, node.lineno, Rule.SETTINGS_SCHEMA, message)
            key = _settings_key(node)
            if key is None or not names:
                continue
            name = key.value if isinstance(key, ast.Constant) else strings.get(getattr(key, "id", ""))
            if isinstance(name, str) and name not in names:
                message = f'settings are read as "{name}", but the entry point is named {", ".join(sorted(names))}'
                yield Finding(module.file, node.lineno, Rule.SETTINGS_SCHEMA, message)  # type: ignore[attr-defined]


def _settings_key(node: ast.AST) -> ast.expr | None:
    """Return the key in ``….plugin_settings[key]`` and ``….plugin_settings.get(key)``."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="plugin_settings"), slice=key):
            return key
        case ast.Call(func=ast.Attribute(attr="get", value=ast.Attribute(attr="plugin_settings")), args=[key, *_]):
            return key
    return None
