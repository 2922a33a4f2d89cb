"""Generated sections of pages: benchmark results, exit codes, rules, contract suites, commands."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, shown
from nodeagent.authoring.findings import Rule
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.main import COMMANDS, _parser
from nodeagent.config.nodeflags import IDENTITY_FLAGS, NODE_FLAGS
from nodeagent.testing.contracts import SUITES

COMPARED = (
    ("static_pods", "all_running", "50 static pods: until all are running"),
    ("static_pods", "start_cpu", "agent CPU until then"),
    ("static_pods", "idle", "idle agent with 50 pods"),
    ("static_pods", "rss", "agent memory (RSS) with 50 pods"),
    ("api_pods", "all_running", "50 API pods: until all are Running"),
    ("api_pods", "start_cpu", "agent CPU until then"),
    ("api_pods", "rss", "agent memory (RSS) with 50 pods"),
    ("one_pod", "running", "one API pod: until it is Running"),
    ("start_up", "agent_healthy", "agent: start until healthy"),
    ("api_server", "creates", "API server: durable event creations"),
    ("api_server", "create_p99", "event creation, 99th percentile"),
    ("api_server", "list", "list of 22,000 events"),
    ("api_server", "rss", "API server memory (RSS) after such lists"),
    ("watchers", "cpu_300", "API server CPU, 300 watchers and 30 changes per second for 8 s"),
)
"""Benchmark, measure and title of each row of the README's table."""


def fill(text: str, name: str, content: str) -> str:
    """Return *text* with *content* between ``<!-- name: … -->`` and ``<!-- /name -->``.

    :raises SystemExit: the page has no such section.
    """
    pattern = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"missing section {name} in a page")
    return pattern.sub(lambda match: f"{match[1]}\n{content}\n\n{match[2]}", text)


# --- figures --------------------------------------------------------------------------------------------------


def figures(results: Path) -> str:
    """Return the table of the recorded results, compared with Kubernetes."""
    recorded = {result["name"]: result for result in json.loads(results.read_text(encoding="utf-8"))}
    rows = ["| measurement | unit | nodeagent | Kubernetes 1.29.1 |", "|---|---|---|---|"]
    used = []
    for name, key, title in COMPARED:
        if name not in recorded:
            continue
        figure = _figure(name, key)
        used.append(recorded[name])
        upstream = _median(key, recorded[name].get("upstream") or ()) or (
            f"{figure.upstream} °" * bool(figure.upstream)
        )
        rows.append(f"| {title} | {figure.unit} | {_median(key, recorded[name]['runs'])} | {upstream} |")
    conditions = _conditions(used)
    if any("°" in row for row in rows):
        conditions += " ° measured on another day on a similar host."
    return "\n".join([*rows, "", conditions])


def _conditions(results: Sequence[Mapping[str, Any]]) -> str:
    days = sorted({result["day"] for result in results})
    host = results[0]["host"]
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    counts = sorted({len(result["runs"]) for result in results})
    runs = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return (
        f"Medians of {runs} runs, {when}, on {host['cores']} cores ({host['processor']}), "
        f"containerd {host['containerd']}."
    )


def _figure(name: str, key: str) -> Figure:
    module = importlib.import_module(f"benchmarks.{name}")
    found: Figure = next(figure for figure in module.FIGURES if figure.key == key)
    return found


def _median(key: str, runs: Sequence[Mapping[str, float]]) -> str:
    values = [run[key] for run in runs if key in run]
    return shown(statistics.median(values)) if values else ""


# --- lists ----------------------------------------------------------------------------------------------------


def exit_codes() -> str:
    """Return the table of the exit codes."""
    texts = {**_documented(ExitCode), "OK": "Success."}
    return "\n".join(
        ["| code | meaning |", "|---|---|", *(f"| {code.value} | {texts[code.name]} |" for code in ExitCode)]
    )


def rules() -> str:
    """Return the table of the rules of ``plugins check``."""
    texts = _documented(Rule)
    return "\n".join(["| rule | error |", "|---|---|", *(f"| `{rule}` | {texts[rule.name]} |" for rule in Rule)])


def suites() -> str:
    """Return the table of the contract suites."""
    rows = (f"| `{hook}` | `{suite.__name__}` | {_fixtures(suite)} |" for hook, suite in SUITES.items())
    return "\n".join(["| hook | contract suite of its component | fixtures to provide |", "|---|---|---|", *rows])


def _fixtures(suite: type) -> str:
    """Return the fixtures of a suite that an implementation has to provide."""
    found = []
    for kind in reversed(suite.__mro__[:-1]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(definition, ast.ClassDef)
        found += [
            node.name
            for node in definition.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
            and any(isinstance(each, ast.Raise) for each in node.body)
        ]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(found))


def _documented(kind: type[Enum]) -> dict[str, str]:
    """Return the docstring of each member of an enumeration."""
    texts: dict[str, str] = {}
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    for member, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name = member.targets[0]
            assert isinstance(name, ast.Name)
            texts[name.id] = inspect.cleandoc(str(below.value.value)).replace("\n", " ").replace("``", "`")
    return texts


# --- commands -------------------------------------------------------------------------------------------------


def commands(note: str) -> str:
    """Return the page of all commands with their flags."""
    lines = [
        "# Commands",
        note,
        "`nodeagent FLAGS`, or `nodeagent run FLAGS`, starts the agent. The other commands are described below, exit "
        "codes in [troubleshooting.md](troubleshooting.md). `-o json` prints JSON.",
    ]
    for command, parser in _actions(_parser(COMMANDS)):
        lines += list(_command("nodeagent", command, parser))
    lines += ["## nodeagent run", "The following flags have no configuration field:", _flag_table()]
    lines.append(
        "In addition, each field of [configuration.md](configuration.md) has a flag; its name is that of the field in "
        "lower case with dashes, as printed by `nodeagent config explain FIELD`. Flags take precedence over files."
    )
    return "\n\n".join(lines) + "\n"


def _flag_table() -> str:
    rows = [f"| `--{flag.name}` | {_cell(flag.doc)} |" for flag in (*NODE_FLAGS, *IDENTITY_FLAGS)]
    return "\n".join(["| flag | meaning |", "|---|---|", *rows])


def _command(path: str, name: str, parser: argparse.ArgumentParser, depth: int = 2) -> Iterator[str]:
    """Yield the section of a command and of its subcommands."""
    own = f"{path} {name}"
    helps = {action.dest: action.help for group in _sub(parser) for action in group._choices_actions}
    yield f"{'#' * depth} {own}"
    if depth == 2 and parser.description:
        yield parser.description
    # The flags of the agent are listed only in the section of ``nodeagent run``.
    takes_flags = "--hostname-override" in parser._option_string_actions
    hidden = frozenset(f"--{flag.name}" for flag in (*NODE_FLAGS, *IDENTITY_FLAGS)) if takes_flags else frozenset()
    options = [action for action in parser._actions if _shown(action, hidden)]
    if options:
        yield "\n".join(["| | |", "|---|---|", *(f"| {_names(action)} | {_meaning(action)} |" for action in options)])
    if takes_flags:
        yield "The flags of [`nodeagent run`](#nodeagent-run) are accepted too."
    for inner, below in _actions(parser):
        section = list(_command(own, inner, below, depth + 1))
        text = helps.get(inner) or ""
        yield section[0]
        if text:
            yield f"{text[0].upper()}{text[1:]}."
        yield from section[1:]


def _shown(action: argparse.Action, hidden: frozenset[str]) -> bool:
    if isinstance(action, argparse._HelpAction | argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
        return False
    return not hidden & set(action.option_strings) and not re.match(r"[\w.]+: ", action.help or "")


def _names(action: argparse.Action) -> str:
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else (action.dest or "").upper()
    )
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{name}`" for name in action.option_strings) + (f" `{value}`" if action.nargs != 0 else "")


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return _cell(text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _sub(parser: argparse.ArgumentParser) -> list[Any]:
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for group in _sub(parser):
        yield from group.choices.items()
