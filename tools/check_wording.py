"""Check the wording of docstrings, comments, strings, log messages, names and Markdown against ``[tool.wording]``.

``python tools/check_wording.py [FILE ...]`` checks the given files, by default all, and prints a line
``file:line: found → use`` per finding. ``--list`` prints the names of the checked files instead, and ``--count`` the
number of findings per rule and package.

A trailing ``# wording: ok`` (Markdown: ``<!-- wording: ok -->``) accepts a line, or the string that ends on it.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ACCEPTED = "wording: ok"
CODE = "\0"
"""Replaces text that is not prose, so that no phrase extends across it."""

WHITE_SPACE = r"\s+"
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGER = re.compile(r"(?:^|_)(?:log|logger|logging)$")
FENCE = re.compile(r"^ *(?P<fence>```+|~~~+).*?^ *(?P=fence) *$", re.DOTALL | re.MULTILINE)
NOT_PROSE = re.compile(r"``[^`]+``|`[^`]+`|<!--.*?-->|\]\([^)\s]*\)|https?://\S+", re.DOTALL)
FIELD = re.compile(r"\{[^{}]*\}")
"""A replacement field of an f-string."""


@dataclass(frozen=True, order=True)
class Finding:
    """One violation; ``rule`` is the section of ``[tool.wording]``."""

    path: str
    line: int
    rule: str
    found: str
    use: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found} → {self.use}"


class Rules:
    """The lists of ``[tool.wording]``."""

    def __init__(self, settings: Mapping[str, Any], root: Path) -> None:
        self.sources: Sequence[str] = settings["sources"]
        self.generated = [re.compile(pattern) for pattern in settings["generated"]]
        self.phrases = _any_of(settings["everywhere"])
        self.phrase_uses = list(settings["everywhere"].values())
        self.identifier = [(re.compile(rf"(?:^|_)(?:{p})(?:_|$)"), use) for p, use in settings["identifier"].items()]
        self.docstring_start = re.compile(rf"\W*({'|'.join(settings['docstring_start']['banned'])})\b")
        self.text_start = re.compile(r"(What|Who|Whom|Whose|Which|How|Whether|Where|Why) [a-z]")
        self.log_pattern = re.compile(settings["log"]["pattern"])
        self.log_banned = [re.compile(pattern) for pattern in settings["log"]["banned"]]
        self.log_exceptions = _messages(root / settings["log"]["exceptions"])
        self.test_name_length: int = settings["test_name"]["max_length"]
        self.test_name_banned: Sequence[str] = settings["test_name"]["banned"]

    @classmethod
    def load(cls, root: Path) -> Rules:
        """Read the lists of the project in *root*."""
        return cls(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["wording"], root)

    def is_generated(self, path: str) -> bool:
        return any(pattern.search(path) for pattern in self.generated)


@dataclass
class Source:
    """One file with the findings in it."""

    path: str
    text: str
    rules: Rules
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)

    def add(self, line: int, rule: str, found: str, use: str) -> None:
        """Record a finding unless its line is accepted."""
        if line not in self.accepted:
            self.findings.append(Finding(self.path, line, rule, found, use))

    @cached_property
    def accepted(self) -> set[int]:
        lines = {number for number, line in enumerate(self.lines, 1) if ACCEPTED in line}
        for token in self.tokens:
            if token.end[0] in lines:
                lines.update(range(token.start[0], token.end[0] + 1))
        return lines

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The comments and string literals of a Python file, or parts of them."""
        if not self.path.endswith(".py"):
            return []
        kinds = {"COMMENT", "STRING", "FSTRING_MIDDLE"}
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [token for token in tokens if tokenize.tok_name[token.type] in kinds]

    def check(self) -> list[Finding]:
        """Return the findings, in order."""
        if self.path.endswith(".py"):
            self._check_python()
        else:
            text = FENCE.sub(_blank, self.text) if self.path.endswith((".md", ".tmpl")) else self.text
            self._check_prose(NOT_PROSE.sub(_blank, text))
        return sorted(set(self.findings))

    def _check_python(self) -> None:
        tree = ast.parse(self.text)
        documented = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        docstrings = [node for node in documented if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        starts = {(node.lineno, node.col_offset) for node in docstrings}
        self._check_prose(self._python_prose(starts))
        for node in docstrings:
            if match := self.rules.docstring_start.match(str(node.value)):
                self.add(node.lineno, "docstring_start", f'docstring starts with "{match[1]}"', "noun or imperative")
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and not self.is_test:
                self._check_log_call(node)
            if isinstance(node, ast.Constant) and not self.is_test and (node.lineno, node.col_offset) not in starts:
                self._check_text_start(node)
        self._check_names(tree)

    def _check_text_start(self, node: ast.Constant) -> None:
        """Check a description, such as that of a setting, like the first word of a docstring."""
        if isinstance(node.value, str) and (match := self.rules.text_start.match(node.value)):
            self.add(node.lineno, "docstring_start", f'text starts with "{match[1]}"', "noun or imperative")

    def _python_prose(self, docstrings: set[tuple[int, int]]) -> str:
        """Return the text with everything but docstrings, comments and (outside of tests) strings blanked."""
        pieces = []
        position = 0
        offsets = [0]
        for line in self.lines:
            offsets.append(offsets[-1] + len(line))
        for token in self.tokens:
            start, end = offsets[token.start[0] - 1] + token.start[1], offsets[token.end[0] - 1] + token.end[1]
            between = self.text[position:start]
            pieces.append(between if not between.strip() else _hide(between))
            piece = self.text[start:end]
            if token.type == tokenize.COMMENT:
                pieces.append(NOT_PROSE.sub(_blank, piece.replace("#", " ")))
            elif token.start in docstrings or not self.is_test:
                is_sentence = " " in piece.strip("rbfuRBFU\"' ")
                pieces.append(FIELD.sub(_blank, NOT_PROSE.sub(_blank, piece)) if is_sentence else _hide(piece))
            else:
                pieces.append(_hide(piece))
            position = end
        return "".join(pieces)

    def _check_prose(self, prose: str) -> None:
        for match in self.rules.phrases.finditer(prose):
            line = prose.count("\n", 0, match.start()) + 1
            self.add(line, "everywhere", " ".join(match[0].split()), self.rules.phrase_uses[(match.lastindex or 1) - 1])

    def _check_log_call(self, call: ast.Call) -> None:
        method = call.func
        if not (isinstance(method, ast.Attribute) and method.attr in LOG_METHODS):
            return
        logger = method.value
        name = logger.id if isinstance(logger, ast.Name) else logger.attr if isinstance(logger, ast.Attribute) else ""
        arguments = call.args[1:] if method.attr == "log" else call.args
        if not LOGGER.search(name) or not arguments:
            return
        for message in _alternatives(arguments[0]):
            if not (isinstance(message, ast.Constant) and isinstance(message.value, str)):
                self.add(message.lineno, "log", f"log message {ast.unparse(message)}", "a constant, details as fields")
            elif problem := self._log_problem(message.value):
                self.add(message.lineno, "log", f'log message "{message.value}"', problem)

    def _log_problem(self, message: str) -> str:
        if any(pattern.fullmatch(message) for pattern in self.rules.log_exceptions):
            return ""
        if not self.rules.log_pattern.search(message):
            return "sentence case, no full stop"
        banned = (match[0] for pattern in self.rules.log_banned if (match := pattern.search(message)))
        return next((f'without "{found}": Failed to …, or event and object' for found in banned), "")

    def _check_names(self, tree: ast.Module) -> None:
        stem = Path(self.path).stem
        self._check_name(1, stem, "module")
        for line, name in _defined_names(tree):
            if self.is_test and name.startswith("test_"):
                self._check_test_name(line, name)
            else:
                self._check_name(line, name, "name")

    def _check_name(self, line: int, name: str, kind: str) -> None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        for pattern, use in self.rules.identifier:
            if pattern.search(words):
                self.add(line, "identifier", f"{kind} {name}", use)

    def _check_test_name(self, line: int, name: str) -> None:
        if len(name) > self.rules.test_name_length:
            use = f"at most {self.rules.test_name_length} characters"
            self.add(line, "test_name", f"{name} ({len(name)} characters)", use)
        for part in self.rules.test_name_banned:
            if part in f"{name}_":
                self.add(line, "test_name", f'{name}: "{part}"', "subject, condition, expected result")


def _defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each name that is defined, once per line: functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _alternatives(node.body)
        yield from _alternatives(node.orelse)
    else:
        yield node


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return one expression with a group per pattern, none of which has groups; a space matches any white space."""
    groups = "|".join(f"({pattern.replace(' ', WHITE_SPACE)})" for pattern in patterns)
    return re.compile(rf"\b(?:{groups})(?!\w)", re.IGNORECASE)


def _messages(file: Path) -> list[re.Pattern[str]]:
    """Return the messages in *file*, one per line; ``…`` stands for any text."""
    lines = file.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line and not line.startswith("#")]
    return [re.compile(re.escape(text).replace("…", ".*")) for text in texts]


def _blank(match: re.Match[str]) -> str:
    return _hide(match[0])


def _hide(text: str) -> str:
    """Replace all but line breaks."""
    return re.sub(r"[^\n]", CODE, text)


def files(rules: Rules, root: Path) -> Iterator[str]:
    """Yield the files that are subject to the rules, relative to *root*."""
    for pattern in rules.sources:
        for path in sorted(root.glob(pattern)):
            relative = path.relative_to(root).as_posix()
            if path.is_file() and not rules.is_generated(relative):
                yield relative


def check(paths: Iterable[str], rules: Rules, root: Path) -> list[Finding]:
    """Return the findings in the given files."""
    sources = (Source(path, (root / path).read_text(encoding="utf-8"), rules) for path in paths)
    return [finding for source in sources for finding in source.check()]


def counts(findings: Iterable[Finding]) -> str:
    """Return a table of the findings per package and rule."""
    columns = ("everywhere", "docstring_start", "log", "test_name", "identifier")
    totals = Counter[tuple[str, str]]()
    for finding in findings:
        for row in (_package(finding.path), "total"):
            totals[row, finding.rule] += 1
    rows = [*sorted({row for row, _ in totals} - {"total"}), "total"]
    lines = [f"{'':40}" + "".join(f"{column:>17}" for column in (*columns, "all"))]
    for row in rows:
        numbers = [totals[row, column] for column in columns]
        lines.append(f"{row:40}" + "".join(f"{number:17}" for number in (*numbers, sum(numbers))))
    return "\n".join(lines)


def _package(path: str) -> str:
    """Return the directory to which a file is counted."""
    depth = {"plugins": 3, "tests": 3 if path.startswith("tests/unit/") else 2}.get(path.partition("/")[0], 2)
    return "/".join(Path(path).parent.parts[:depth]) or "."


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files to check, relative to the project (default: all)")
    parser.add_argument("--count", action="store_true", help="print totals per rule and package")
    parser.add_argument("--list", action="store_true", help="print the files that are checked")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to check (default: %(default)s)")
    options = parser.parse_args(arguments)
    rules = Rules.load(ROOT)
    known = list(files(rules, options.root))
    if options.count:
        print(counts(check(known, rules, options.root)))
        return 0
    given = set(options.files)
    paths = [path for path in known if not given or path in given]
    if options.list:
        print("\n".join(paths))
        return 0
    findings = check(paths, rules, options.root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
