"""Check for calls that block the event loop: in ``async def`` functions, and in functions of the file they call."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nodeagent.authoring.findings import Finding, Rule
from nodeagent.authoring.source import FunctionNode, Module

_THREAD = "use asyncio.to_thread"
_CALLS: Mapping[str, str] = {
    "time.sleep": "use await context.clock.sleep",
    "input": _THREAD,
    "open": _THREAD,
    "io.open": _THREAD,
    "os.listdir": _THREAD,
    "os.popen": "use asyncio.create_subprocess_exec",
    "os.scandir": _THREAD,
    "os.system": "use asyncio.create_subprocess_exec",
    "os.wait": "use asyncio.create_subprocess_exec",
    "os.waitpid": "use asyncio.create_subprocess_exec",
    "os.walk": _THREAD,
    "glob.glob": _THREAD,
    "socket.create_connection": "use asyncio.open_connection",
    "socket.getaddrinfo": "use asyncio.get_running_loop().getaddrinfo",
    "socket.gethostbyname": "use asyncio.get_running_loop().getaddrinfo",
    "sqlite3.connect": _THREAD,
    "urllib.request.urlopen": "use aiohttp",
    "urllib.request.urlretrieve": "use aiohttp",
    "asyncio.run": "await the coroutine",
    **{
        f"subprocess.{name}": "use asyncio.create_subprocess_exec"
        for name in ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "Popen")
    },
    **{
        f"{library}.{verb}": "use aiohttp"
        for library in ("requests", "httpx")
        for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request", "stream")
    },
    **{f"{kind}": "use aiohttp" for kind in ("requests.Session", "httpx.Client")},
    **{
        f"shutil.{name}": _THREAD
        for name in ("copy", "copy2", "copyfile", "copytree", "move", "rmtree", "make_archive", "unpack_archive")
    },
}
_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}
"""Methods of paths; other classes rarely have methods with these names."""


def check_blocking(module: Module) -> Iterator[Finding]:
    """Yield a finding for each blocking call in the event loop, only once per call."""
    functions = dict(_functions(module.tree, ""))
    reported: set[int] = set()
    for owner, function in functions.items():
        if isinstance(function, ast.AsyncFunctionDef):
            for call, name, instead, through in _blocking(module, functions, owner, frozenset()):
                if id(call) not in reported:
                    reported.add(id(call))
                    path = f"async {function.name}" + (f" through {' and '.join(through)}" if through else "")
                    message = f"{name}() blocks the event loop, called from {path}; {instead}"
                    yield Finding(module.file, call.lineno, Rule.BLOCKING_CALL, message)


def _blocking(
    module: Module, functions: Mapping[str, FunctionNode], owner: str, seen: frozenset[str]
) -> Iterator[tuple[ast.Call, str, str, tuple[str, ...]]]:
    """Yield each blocking call in the function *owner*: call, name, replacement and the call chain."""
    for call in _calls(functions[owner]):
        name = module.dotted(call.func)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        inner = _called(call, owner, functions)
        if inner and inner not in seen and isinstance(functions[inner], ast.FunctionDef):
            for nested, nested_name, instead, through in _blocking(module, functions, inner, seen | {owner}):
                yield nested, nested_name, instead, (functions[inner].name, *through)
        elif name in _CALLS and not inner:
            yield call, name, _CALLS[name], ()
        elif method in _METHODS:
            yield call, method, _THREAD, ()


def _called(call: ast.Call, owner: str, functions: Mapping[str, FunctionNode]) -> str:
    """Return the qualified name of the called function of this file; empty if it is not a function of this file.

    ``self.name()`` is resolved in the class of *owner*, ``name()`` in *owner* and in the file.
    """
    match call.func:
        case ast.Name(id=name):
            candidates = [f"{owner}.{name}", name]
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            candidates = [f"{owner.rpartition('.')[0]}.{name}"]
        case _:
            return ""
    return next((candidate for candidate in candidates if candidate in functions), "")


def _calls(function: FunctionNode) -> Iterator[ast.Call]:
    """Yield the calls in a function, without those in nested functions, lambdas and classes."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, FunctionNode | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        pending.extend(ast.iter_child_nodes(node))


def _functions(node: ast.AST, path: str) -> Iterator[tuple[str, FunctionNode]]:
    """Yield the functions of a file with their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode | ast.ClassDef):
            inner = f"{path}.{child.name}".lstrip(".")
            if not isinstance(child, ast.ClassDef):
                yield inner, child
            yield from _functions(child, inner)
        else:
            yield from _functions(child, path)
