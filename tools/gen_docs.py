"""Generate documentation from the code, or check that it is up to date.

``python tools/gen_docs.py`` writes ``docs/hooks.md`` from the docstrings of ``nodeagent/hookspecs.py``,
``docs/contracts`` from those of ``nodeagent/contracts``,
``docs/configuration.md`` from the types of ``nodeagent/config``, ``docs/commands.md`` from the command line, and the
marked sections of other pages (figures, exit codes, rules, suites); ``--check`` writes nothing and exits 1 if a page is
out of date.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodeagent import hookspecs
from nodeagent.config import features
from nodeagent.config.fields import Field, Shape, all_fields, is_struct, members
from nodeagent.contracts.configuration import (
    ConfigStruct,
    CredentialProviderConfig,
    NodeAgentConfiguration,
    TimeOrMetaDuration,
)

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import gen_contracts  # noqa: E402
import gen_sections  # noqa: E402

NOTE = "<!-- Made by tools/gen_docs.py; change the code it comes from, then run `make docs`. -->"


@dataclass(frozen=True)
class Hook:
    """A hook specification."""

    stage: str
    name: str
    signature: str
    is_async: bool
    first_result: bool
    docstring: str
    passed: frozenset[str] = frozenset()
    """Names in the annotations of the arguments."""
    returned: frozenset[str] = frozenset()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is out of date")
    check = parser.parse_args().check
    stale = [path for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages()[path], encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'is out of date, run make docs' if check else 'written'}")
    return 1 if check and stale else 0


def pages() -> dict[Path, str]:
    """Return the text of every page that is generated or has a generated section, by path."""
    docs = ROOT / "docs"
    sections = {
        ROOT / "README.md": ("figures", gen_sections.figures(ROOT / "benchmarks" / "results.json")),
        docs / "troubleshooting.md": ("exit codes", gen_sections.exit_codes()),
        docs / "checking-a-plugin.md": ("rules", gen_sections.rules()),
        docs / "writing-a-plugin.md": ("suites", gen_sections.suites()),
    }
    return {
        docs / "hooks.md": hooks_page(),
        docs / "configuration.md": configuration_page(),
        **{docs / path: text for path, text in contract_pages().items()},
        docs / "commands.md": gen_sections.commands(NOTE),
        **{path: gen_sections.fill(path.read_text(encoding="utf-8"), *section) for path, section in sections.items()},
    }


# --- hooks ----------------------------------------------------------------------------------------------------


def hooks_page() -> str:
    """Return the page of every hook, in the order of the data flow."""
    lines = ["# Hooks", NOTE, *_paragraphs(inspect.cleandoc(hookspecs.__doc__ or ""))]
    found = list(hooks())
    lines.append("| hook | kind | purpose |\n|---|---|---|")
    lines[-1] += "".join(f"\n| [`{h.name}`](#{h.name}) | {_kind(h)} | {_summary(h)} |" for h in found)
    stage = ""
    for hook in found:
        if hook.stage != stage:
            stage = hook.stage
            lines.append(f"## {stage[0].upper()}{stage[1:]}")
        text = [*_hook_text(hook), *_contract_links(hook)]
        lines += [f"### {hook.name}", f"```python\n{hook.signature}\n```", *text]
    return "\n\n".join(lines) + "\n"


def contract_pages() -> dict[str, str]:
    """Return the text of each contract page by its path relative to ``docs/``."""
    uses = [gen_contracts.HookUse(hook.name, hook.passed, hook.returned) for hook in hooks()]
    return gen_contracts.pages(NOTE, uses)


def _contract_links(hook: Hook) -> Iterator[str]:
    targets = gen_contracts.targets()
    if names := sorted(name for name in hook.passed | hook.returned if name in targets):
        yield f"- **Contracts:** {', '.join(f'[`{name}`]({targets[name]})' for name in names)}"


def hooks() -> Iterator[Hook]:
    """Yield the hooks in the order of their definition."""
    source = inspect.getsource(hookspecs)
    stages = {
        number: m[1] for number, line in enumerate(source.splitlines(), 1) if (m := re.match(r"# --- (.+?) -+$", line))
    }
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("nodeagent_"):
            stage = stages[max(number for number in stages if number < node.lineno)]
            first = any(isinstance(decorator, ast.Call) for decorator in node.decorator_list)
            is_async = isinstance(node, ast.AsyncFunctionDef)
            yield Hook(
                stage,
                node.name,
                _signature(node),
                is_async,
                first,
                inspect.cleandoc(ast.get_docstring(node) or ""),
                frozenset().union(*(gen_contracts.names_in(argument.annotation) for argument in node.args.args)),
                gen_contracts.names_in(node.returns),
            )


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = ast.unparse(node.returns) if node.returns else "None"
    line = f"{keyword} {node.name}({ast.unparse(node.args)}) -> {returns}"
    if len(line) <= 100:
        return line
    arguments = "".join(f"    {ast.unparse(argument)},\n" for argument in node.args.args)
    return f"{keyword} {node.name}(\n{arguments}) -> {returns}"


def _kind(hook: Hook) -> str:
    if hook.is_async:
        return "async"
    return "provider, first result" if hook.first_result else "provider, all results"


def _summary(hook: Hook) -> str:
    return _code(hook.docstring.split("\n\n", 1)[0].replace("\n", " ")).replace("|", "\\|")


def _hook_text(hook: Hook) -> Iterator[str]:
    facts: list[str] = []
    for paragraph in _paragraphs(hook.docstring):
        for line in _logical_lines(paragraph):
            if match := re.match(r"(Called|On error|spec): (.+)", line):
                label = {"spec": "Specification"}.get(match[1], match[1])
                value = ", ".join(f"`{row.strip()}`" for row in match[2].split(",")) if match[1] == "spec" else match[2]
                facts.append(f"- **{label}:** {value}")
            elif match := re.match(r":param (\w+): (.+)", line):
                facts.append(f"- `{match[1]}`: {match[2]}")
            elif match := re.match(r":returns: (.+)", line):
                facts.append(f"- **Returns:** {match[1]}")
            elif match := re.match(r":raises (\w+): (.+)", line):
                facts.append(f"- **Raises** `{match[1]}`: {match[2]}")
            else:
                if facts:
                    yield "\n".join(facts)
                    facts = []
                yield line
    if facts:
        yield "\n".join(facts)


def _logical_lines(paragraph: str) -> Iterator[str]:
    """Join lines that only continue the one before."""
    line = ""
    for row in paragraph.splitlines():
        if re.match(r"(Called|On error|spec|:\w+[^:]*): ", row):
            if line:
                yield line
            line = row
        else:
            line = f"{line} {row.strip()}".strip()
    if line:
        yield line


def _paragraphs(text: str) -> list[str]:
    return [_code(paragraph) for paragraph in text.split("\n\n") if paragraph.strip()]


def _code(text: str) -> str:
    return text.replace("``", "`")


# --- configuration --------------------------------------------------------------------------------------------


def configuration_page() -> str:
    """Return the page of every field of the configuration file and of the files beside it."""
    groups = _field_groups()
    top = {path: field for path, field in all_fields().items() if "." not in path}
    lines = [
        "# Configuration",
        NOTE,
        "The file given with `--config` is YAML or JSON with `apiVersion`, `kind: NodeAgentConfiguration` and the "
        "fields below. Every field may be left out; it then has the default. "
        "`nodeagent config explain FIELD` says the same on a terminal, `nodeagent config validate FILE` checks a file "
        "and names every problem at once.",
    ]
    for title, names in groups.items():
        lines += [f"## {title}", _table(top[name] for name in names)]
    lines.append("## Types")
    for kind in _struct_types(NodeAgentConfiguration):
        lines += _type_section(kind)
    lines.append("## Credential provider file")
    lines.append("Given with `--image-credential-provider-config`; `kind: CredentialProviderConfig`.")
    provider_file: type[ConfigStruct] = CredentialProviderConfig
    for kind in [provider_file, *_struct_types(provider_file)]:
        lines += _type_section(kind)
    lines += ["## Feature gates", _gates()]
    return "\n\n".join(lines) + "\n"


def _field_groups() -> dict[str, list[str]]:
    """Return the fields of the configuration under the headings that its definition has as comments."""
    groups: dict[str, list[str]] = {}
    names = {member.attribute: member.wire for member in members(NodeAgentConfiguration)}
    current: list[str] = []
    for line in inspect.getsource(NodeAgentConfiguration).splitlines():
        if match := re.match(r"    # ([A-Z][^.]*)$", line):
            current = groups.setdefault(match[1], [])
        elif (match := re.match(r"    (\w+): ", line)) and match[1] in names:
            current.append(names[match[1]])
    if missing := set(names.values()) - {name for group in groups.values() for name in group}:
        raise SystemExit(f"nodeagent/contracts/configuration.py: fields under no heading: {', '.join(sorted(missing))}")
    return groups


def _struct_types(kind: type[ConfigStruct]) -> list[type[ConfigStruct]]:
    """Return the struct types that *kind* holds, in order of appearance, each once."""
    found: dict[type[ConfigStruct], None] = {}
    for member in members(kind):
        shape: Shape | None = member.shape
        while shape is not None:
            if is_struct(shape):
                found |= dict.fromkeys([shape.kind, *_struct_types(shape.kind)])
            shape = shape.item
    return list(found)


def _type_section(kind: type[ConfigStruct]) -> list[str]:
    default = kind()
    fields = (
        Field(member.wire, (member.attribute,), member, getattr(default, member.attribute)) for member in members(kind)
    )
    own = vars(kind).get("__doc__")
    text = [_code(inspect.cleandoc(own))] if own else []
    return [f"### {kind.__name__}", *text, _table(fields)]


def _table(fields: Any) -> str:
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in fields:
        shape = field.member.shape
        inner = shape.item or shape
        name = shape.name
        if is_struct(inner):
            target = inner.kind.__name__
            name = name.replace(target, f"[{target}](#{target.lower()})")
        meaning = field.member.doc.replace("|", "\\|").replace("<", "&lt;")
        rows.append(f"| `{field.path}` | {name} | {_default(field.default, shape)} | {meaning} |")
    return "\n".join(rows)


def _default(value: Any, shape: Shape) -> str:
    if isinstance(value, TimeOrMetaDuration):
        value = value.duration
    if value is None or value in ("", (), {}) or is_struct(shape):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return ", ".join(f"`{key}: {item}`" for key, item in value.items())
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`"


def _gates() -> str:
    rows = ["| gate | stage | default |", "|---|---|---|"]
    for gate in sorted(features.KNOWN, key=lambda gate: gate.name):
        default = f"{str(gate.default).lower()}{', locked' if gate.locked else ''}"
        rows.append(f"| `{gate.name}` | {gate.stage.value or 'GA'} | {default} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
