"""Contract pages: one page per module of ``nodeagent.contracts``, generated from types and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTRACTS = ROOT / "nodeagent" / "contracts"
OTHERS = (
    ROOT / "nodeagent" / "model" / "pod.py",
    ROOT / "nodeagent" / "model" / "meta.py",
    ROOT / "nodeagent" / "errors.py",
)
"""Modules of other packages that plugins use together with the contracts."""
CONFIGURATION = "configuration"
"""The module whose types are documented field by field on the configuration page."""
_DEFINITIONS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_STRUCTS = frozenset({"Struct", "MutableStruct", "WireStruct"})
"""Base classes of data classes; see ``nodeagent.base.structs`` and ``nodeagent.model.wire``."""
_FIELD = re.compile(r":(param|raises|returns|ivar)(?: (\w+))?: (.*)", re.DOTALL)


@dataclass(frozen=True)
class Docstring:
    """A docstring, divided into its text and the documented arguments and errors."""

    text: str
    parameters: Mapping[str, str]
    raises: Sequence[tuple[str, str]]
    returns: str = ""
    spec: str = ""


@dataclass(frozen=True)
class Module:
    """A documented module."""

    name: str
    docstring: Docstring
    classes: Sequence[ast.ClassDef]
    functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]
    qualified: str
    constants: Sequence[tuple[str, str]] = field(default=())
    """Name and docstring of each constant."""

    @property
    def path(self) -> str:
        """The page, relative to ``docs/``."""
        return f"contracts/{self.name.replace('_', '-')}.md"


@dataclass(frozen=True)
class HookUse:
    """The types in the signature of a hook."""

    name: str
    passed: frozenset[str]
    returned: frozenset[str]


@cache
def modules() -> Sequence[Module]:
    """Return the modules that have a page: the contracts by name, then the other modules."""
    paths = [path for path in sorted(CONTRACTS.glob("*.py")) if path.stem not in {"__init__", CONFIGURATION}]
    return tuple(_module(path) for path in [*paths, *OTHERS])


@cache
def targets() -> Mapping[str, str]:
    """Return the page and anchor of each contract type, relative to ``docs/``."""
    found = {kind.name: f"{module.path}#{kind.name.lower()}" for module in modules() for kind in module.classes}
    source = (CONTRACTS / f"{CONFIGURATION}.py").read_text(encoding="utf-8")
    structs = (node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {**dict.fromkeys(structs, "configuration.md"), **found}


def pages(note: str, hooks: Sequence[HookUse]) -> dict[str, str]:
    """Return the text of each page by its path relative to ``docs/``.

    :param note: the comment that marks generated pages.
    """
    links = targets()
    found = {module.path: _page(module, note, hooks, links) for module in modules()}
    return {"contracts/index.md": _index(note, hooks), **found}


def names_in(annotation: ast.expr | None) -> frozenset[str]:
    """Return the names in a type annotation."""
    nodes = ast.walk(annotation) if annotation is not None else ()
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


def is_protocol(kind: ast.ClassDef) -> bool:
    """Return whether *kind* is a protocol."""
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in kind.bases)


def methods(kind: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the public methods and properties of *kind*."""
    for node in kind.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            not node.name.startswith("_") or (node.name == "__call__" and is_protocol(kind))
        ):
            yield node


def parse_docstring(node: ast.Module | _DEFINITIONS) -> Docstring:
    """Return the docstring of *node*, divided into its fields."""
    text: list[str] = []
    parameters: dict[str, str] = {}
    raises: list[tuple[str, str]] = []
    returns, spec = "", ""
    for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
        plain: list[str] = []
        for line in _logical_lines(paragraph):
            if line.startswith("spec: "):
                spec = line.removeprefix("spec: ")
            elif match := _FIELD.fullmatch(line):
                kind, name, value = match[1], match[2] or "", match[3]
                if kind == "raises":
                    raises.append((name, value))
                elif kind == "returns":
                    returns = value
                else:
                    parameters[name] = value
            else:
                plain.append(line)
        if plain:
            text.append("\n".join(plain))
    return Docstring("\n\n".join(text), parameters, raises, returns, spec)


# --- pages ----------------------------------------------------------------------------------------------------


def _index(note: str, hooks: Sequence[HookUse]) -> str:
    rows = ["| contract | page | purpose | hooks |", "|---|---|---|---|"]
    for module in modules():
        page = module.path.removeprefix("contracts/")
        for kind in module.classes:
            if not is_protocol(kind):
                continue
            uses = [hook.name for hook in hooks if kind.name in hook.returned | hook.passed]
            links = ", ".join(f"[`{name}`](../hooks.md#{name})" for name in uses)
            summary = _cell(parse_docstring(kind).text.split("\n\n")[0])
            rows.append(
                f"| [`{kind.name}`]({page}#{kind.name.lower()}) | [{module.name}]({page}) | {summary} | {links} |"
            )
    others = [
        f"- [{module.name}]({module.path.removeprefix('contracts/')}): {_summary(module)}" for module in modules()
    ]
    text = (
        "The contracts of `nodeagent.contracts`: protocols that plugins implement or call, with the types of their "
        "arguments and results. [Hooks](../hooks.md) lists the hook that provides or passes each of them. A method "
        "that documents no error raises none; `nodeagent.testing.contracts` tests implementations."
    )
    return "\n\n".join(["# Contracts", note, text, "\n".join(rows), "## Modules", "\n".join(others)]) + "\n"


def _page(module: Module, note: str, hooks: Sequence[HookUse], links: Mapping[str, str]) -> str:
    title = module.name.replace("_", " ").capitalize()
    lines = [f"# {title}", note, f"Module `{module.qualified}`. {_code(module.docstring.text)}"]
    if module.constants:
        rows = [f"| `{name}` | {_cell(text)} |" for name, text in module.constants]
        lines.append("\n".join(["| constant | meaning |", "|---|---|", *rows]))
    for kind in module.classes:
        lines += _class_section(kind, hooks, links)
    for function in module.functions:
        lines += [f"## {function.name}", *_callable_text(function, links)]
    return "\n\n".join(lines) + "\n"


def _class_section(kind: ast.ClassDef, hooks: Sequence[HookUse], links: Mapping[str, str]) -> Iterator[str]:
    docstring = parse_docstring(kind)
    yield f"## {kind.name}"
    named = (ast.unparse(base) for base in kind.bases)
    bases = ", ".join(_link(base, links) for base in named if base not in _STRUCTS)
    facts = [f"- **Kind:** {_kind(kind)}{f' ({bases})' if bases and _kind(kind) != 'enumeration' else ''}"]
    for label, uses in (
        ("Returned by", [hook.name for hook in hooks if kind.name in hook.returned]),
        ("Passed to", [hook.name for hook in hooks if kind.name in hook.passed]),
    ):
        if uses:
            facts.append(f"- **{label}:** {', '.join(f'[`{name}`](../hooks.md#{name})' for name in uses)}")
    if kind.name in (components := _components()):
        component, stage = components[kind.name]
        facts.append(f"- **Available as:** `context.{component}`, first in [`{stage}`](context.md#{stage.lower()})")
    if docstring.spec:
        facts.append(f"- **Specification:** {', '.join(f'`{row.strip()}`' for row in docstring.spec.split(','))}")
    yield "\n".join(facts)
    if docstring.text:
        yield _code(docstring.text)
    if rows := list(_field_rows(kind, docstring, links)):
        enumeration = _kind(kind) == "enumeration"
        header = "| member | value | meaning |" if enumeration else "| field | type | default | meaning |"
        yield "\n".join([header, "|---" * (header.count("|") - 1) + "|", *rows])
    for method in methods(kind):
        yield f"### `{kind.name}.{method.name}`"
        yield from _callable_text(method, links)


def _callable_text(function: ast.FunctionDef | ast.AsyncFunctionDef, links: Mapping[str, str]) -> Iterator[str]:
    docstring = parse_docstring(function)
    yield f"```python\n{_signature(function)}\n```"
    if docstring.text:
        yield _code(docstring.text)
    facts = []
    for argument in arguments_of(function):
        text = docstring.parameters.get(argument.arg, "")
        kind = _type(argument.annotation, links)
        facts.append(f"- `{argument.arg}`{f' ({kind})' if kind else ''}{f': {_code(text)}' if text else ''}")
    returns = _type(function.returns, links)
    if returns and returns != "`None`":
        facts.append(f"- **Returns** {returns}{f': {_code(docstring.returns)}' if docstring.returns else ''}")
    facts += [f"- **Raises** {_link(name, links)}: {_code(text)}" for name, text in docstring.raises]
    if docstring.spec:
        facts.append(f"- **Specification:** {', '.join(f'`{row.strip()}`' for row in docstring.spec.split(','))}")
    if facts:
        yield "\n".join(facts)


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return the arguments of *function* without ``self`` and ``cls``."""
    arguments = function.args
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]
    return [argument for argument in every if argument.arg not in {"self", "cls"}]


def _field_rows(kind: ast.ClassDef, docstring: Docstring, links: Mapping[str, str]) -> Iterator[str]:
    for node, below in zip(kind.body, [*kind.body[1:], None], strict=True):
        text = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            text = inspect.cleandoc(below.value.value)
        if isinstance(node, ast.Assign) and _kind(kind) == "enumeration":
            yield f"| `{ast.unparse(node.targets[0])}` | `{ast.unparse(node.value)}` | {_cell(text)} |"
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
            if "ClassVar" in names_in(node.annotation) or name.startswith("_"):
                continue
            default = f"`{_default(node.value)}`" if node.value is not None else ""
            text = text or docstring.parameters.get(name, "")
            yield f"| `{name}` | {_cell(_type(node.annotation, links))} | {_cell(default)} | {_cell(text)} |"


@cache
def _components() -> Mapping[str, tuple[str, str]]:
    """Return the attribute of the context, and the first stage that has it, by type."""
    found: dict[str, tuple[str, str]] = {}
    for stage in _module(CONTRACTS / "context.py").classes:
        for node in stage.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                for name in names_in(node.annotation) - {"ClassVar", "Callable", "Awaitable", "Mapping"}:
                    found.setdefault(name, (node.target.id, stage.name))
    return found


# --- text -----------------------------------------------------------------------------------------------------


def _module(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = [node for node in tree.body if isinstance(node, _DEFINITIONS) and not node.name.startswith("_")]
    constants = []
    for node, below in zip(tree.body, tree.body[1:], strict=False):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(target, ast.Name) and isinstance(text, str) and not target.id.startswith("_"):
            constants.append((target.id, inspect.cleandoc(text)))
    return Module(
        path.stem,
        parse_docstring(tree),
        [node for node in public if isinstance(node, ast.ClassDef)],
        [node for node in public if not isinstance(node, ast.ClassDef)],
        ".".join(path.relative_to(ROOT).with_suffix("").parts),
        constants,
    )


def _kind(kind: ast.ClassDef) -> str:
    bases = {ast.unparse(base).rpartition(".")[2] for base in kind.bases}
    if is_protocol(kind):
        return "protocol"
    if bases & {"StrEnum", "Enum", "IntEnum"}:
        return "enumeration"
    if any(base.endswith(("Error", "Exception", "Failure", "Unavailable")) for base in bases):
        return "exception"
    return "data class"


def _signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    keyword = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    returns = ast.unparse(function.returns) if function.returns else "None"
    line = f"{keyword} {function.name}({ast.unparse(function.args)}) -> {returns}"
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    return "\n".join([*(f"@{name}" for name in decorators if name in {"property", "classmethod"}), line])


def _type(annotation: ast.expr | None, links: Mapping[str, str]) -> str:
    """Return a type as code, with a link if it consists of one contract."""
    if annotation is None:
        return ""
    text = ast.unparse(annotation)
    known = [name for name in sorted(names_in(annotation)) if name in links]
    if text in links:
        return _link(text, links)
    others = ", ".join(_link(name, links) for name in known)
    return f"`{text}`{f', see {others}' if others else ''}"


def _link(name: str, links: Mapping[str, str]) -> str:
    target = links.get(name)
    return f"[`{name}`]({_relative(target)})" if target else f"`{name}`"


def _relative(target: str) -> str:
    """Return a path below ``docs/`` relative to the directory of the contract pages."""
    return target.removeprefix("contracts/") if target.startswith("contracts/") else f"../{target}"


def _default(value: ast.expr) -> str:
    text = ast.unparse(value)
    match = re.search(r"default(?:_factory)?=([^,)]+)", text) if text.startswith("field(") else None
    return match[1] if match else text


def _summary(module: Module) -> str:
    return _cell(module.docstring.text.split("\n\n")[0].rstrip(":"))


def _cell(text: str) -> str:
    return _code(text.replace("\n", " ")).replace("|", "\\|")


def _code(text: str) -> str:
    text = re.sub(r":(?:class|meth|data|func|mod):`~?([^`]+)`", lambda match: f"`{match[1].rpartition('.')[2]}`", text)
    text = re.sub(r"::\n", ":\n", text)
    return text.replace("``", "`")


def _logical_lines(paragraph: str) -> Iterator[str]:
    """Join the lines that continue a field; other lines are returned unchanged."""
    line = ""
    in_field = False
    for row in paragraph.splitlines():
        if re.match(r"(spec: |:\w+[^:]*: )", row):
            if line:
                yield line
            line, in_field = row, True
        elif in_field:
            line = f"{line} {row.strip()}"
        else:
            if line:
                yield line
            line = row
    if line:
        yield line
