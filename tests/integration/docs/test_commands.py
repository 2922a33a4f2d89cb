"""Tests of the documentation: commands in code blocks, and the build of the site."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.docs.blocks import PAGES, ROOT, Block, blocks
from tests.integration.programs import free_port

BIN = Path(sys.executable).parent
RUNNABLE = [page for page in PAGES if any(keyword == "run" for block in blocks(page) for keyword, _ in block.notes)]


@pytest.mark.parametrize("page", PAGES)
def test_each_command_block_states_how_it_is_tested(page):
    unclear = []
    for block in (block for block in blocks(page) if block.is_shell):
        notes = {keyword: argument for keyword, argument in block.notes if keyword in ("run", "tested by", "not run")}
        test = notes.get("tested by")
        if len(notes) != 1 or (test is not None and not (ROOT / test).is_file()) or notes.get("not run") == "":
            unclear.append(f"{page}:{block.line}")

    assert unclear == [], "put <!-- run -->, <!-- tested by TEST --> or <!-- not run: REASON --> above the block"


@pytest.mark.parametrize("page", PAGES)
def test_each_quoted_block_matches_its_source(page):
    wrong = []
    for block in blocks(page):
        if source := dict(block.notes).get("quoted from"):
            text, position = (ROOT / source).read_text(), 0
            for part in re.split(r"^ *\.\.\.\n", block.text, flags=re.MULTILINE):
                found = text.find(part.strip("\n"), position)
                if found < 0:
                    wrong.append(f"{page}:{block.line}: not in {source}: {part!r}")
                position = max(found, position)

    assert wrong == []


class Scratch:
    """Temporary directory and environment for the commands of one page."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(directory),
            "PORT": str(free_port()),
            "COLUMNS": "200",
            "LC_ALL": "C.UTF-8",
        }

    def shell(self, script: str, code: int = 0) -> str:
        completed = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=100,
            check=False,
        )
        assert completed.returncode == code, f"exit code {completed.returncode} of\n{script}\n{completed.stdout}"
        return completed.stdout

    def run(self, block: Block, code: int) -> None:
        if block.language != "console":
            self.shell(block.text, code)
            return
        for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            last = block.text.rstrip("\n").endswith(step.rstrip("\n"))
            output = self.shell(command, code if last else 0)
            pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
            assert re.fullmatch(pattern, output.strip(), re.DOTALL), f"$ {command}\n{output}\nexpected:\n{expected}"


@pytest.mark.parametrize("page", RUNNABLE)
def test_commands_of_a_page_have_the_documented_output(page, tmp_path):
    scratch = Scratch(tmp_path)
    for block in blocks(page):
        for keyword, argument in block.notes:
            if keyword == "file":
                (tmp_path / argument).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / argument).write_text(block.text)
            elif keyword == "before":
                scratch.shell(argument)
            elif keyword == "run":
                scratch.run(block, int(argument.removeprefix("exit code ") or 0))


def test_site_builds_without_warnings(tmp_path):
    completed = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    assert (tmp_path / "site" / "hooks.html").stat().st_size > 20_000
    shutil.rmtree(tmp_path / "site")
