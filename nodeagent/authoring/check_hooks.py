"""Check of hook implementations: name, signature, options of the marker, and the schema of the settings."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from nodeagent.authoring.findings import Finding, Rule
from nodeagent.authoring.hook_signatures import PREFIX, HookSignature, known_hooks, nearest
from nodeagent.authoring.source import HookImplementation, Module

_SCHEMA_HOOK = "nodeagent_settings_schema"
_OPTIONS = {"tryfirst", "trylast", "optionalhook"}


def check_hooks(modules: Sequence[Module]) -> Iterator[Finding]:
    """Yield the findings for each implementation, or one if there is none."""
    hooks = known_hooks()
    implemented = False
    for module in modules:
        for implementation in module.hook_implementations(PREFIX):
            implemented = implemented or implementation.marked
            for line, rule, message in _check(implementation, hooks):
                yield Finding(module.file, line, rule, message)
    if modules and not implemented:
        yield Finding(modules[0].file, 1, Rule.NO_HOOKS, "no function is marked with @hookimpl, so none is ever called")


def _check(implementation: HookImplementation, hooks: Mapping[str, HookSignature]) -> Iterator[tuple[int, Rule, str]]:
    node = implementation.node
    hook = hooks.get(node.name)
    if not implementation.marked:
        if hook is not None:
            yield node.lineno, Rule.UNMARKED_HOOK, f"{node.name} lacks @hookimpl and is never called"
        return
    for option, line in implementation.options.items():
        if option not in _OPTIONS:
            yield (
                line,
                Rule.HOOK_OPTION,
                f"unsupported option {option} of @hookimpl: must be tryfirst, trylast or optionalhook",
            )
    if hook is None and not node.name.startswith(PREFIX):
        return  # Another plugin may declare it; the signature is verified when the plugins are loaded.
    if hook is None:
        yield node.lineno, Rule.UNKNOWN_HOOK, f"unknown hook {node.name}{nearest(node.name, hooks)}"
        return
    if hook.is_async != isinstance(node, ast.AsyncFunctionDef):
        expected = "an async def: the agent awaits it" if hook.is_async else "a plain def: it is called once at startup"
        yield node.lineno, Rule.ASYNC, f"{node.name} must be {expected}"
    yield from _check_arguments(implementation, hook)


def _check_arguments(implementation: HookImplementation, hook: HookSignature) -> Iterator[tuple[int, Rule, str]]:
    arguments = implementation.node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in implementation.node.decorator_list)
    if implementation.method and not static:
        positional = positional[1:]
    defaults = len(arguments.defaults)
    with_default = positional[-defaults:] if defaults else []
    supported = ", ".join(hook.arguments) or "none"
    for argument in positional:
        if argument.arg not in hook.arguments:
            if argument not in with_default:
                hint = nearest(argument.arg, hook.arguments) or f"; supported: {supported}"
                yield argument.lineno, Rule.ARGUMENT, f'{hook.name} has no argument "{argument.arg}"{hint}'
        elif argument in with_default:
            yield (
                argument.lineno,
                Rule.ARGUMENT,
                f'argument "{argument.arg}" of {hook.name} has a default and is therefore never passed; remove it',
            )
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None or argument.arg in hook.arguments:
            message = f'keyword-only argument "{argument.arg}" is never passed; arguments of {hook.name}: {supported}'
            yield argument.lineno, Rule.ARGUMENT, message


def check_settings(modules: Sequence[Module], names: Mapping[str, int] | None) -> Iterator[Finding]:
    """Yield a finding for settings that are read without a schema, or under a name that is not the plugin's.

    :param names: the names of the plugins of this distribution; ``None`` if they are unknown.
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
                message = f"settings without a schema are rejected by the agent: implement {_SCHEMA_HOOK}"
                yield Finding(module.file, node.lineno, Rule.SETTINGS_SCHEMA, message)
            key = _settings_key(node)
            if key is None or not names:
                continue
            name = key.value if isinstance(key, ast.Constant) else strings.get(getattr(key, "id", ""))
            if isinstance(name, str) and name not in names:
                message = f'settings are read under "{name}", but the entry point is named {", ".join(sorted(names))}'
                yield Finding(module.file, node.lineno, Rule.SETTINGS_SCHEMA, message)  # type: ignore[attr-defined]


def _settings_key(node: ast.AST) -> ast.expr | None:
    """Return the key in ``….plugin_settings[key]`` and ``….plugin_settings.get(key)``."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="plugin_settings"), slice=key):
            return key
        case ast.Call(func=ast.Attribute(attr="get", value=ast.Attribute(attr="plugin_settings")), args=[key, *_]):
            return key
    return None
