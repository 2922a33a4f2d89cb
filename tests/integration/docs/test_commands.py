"""Every command in the pages is run by a test, or the page says why not; the site builds without a warning."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.docs.blocks import PAGES, ROOT, Block, blocks

BIN = Path(sys.executable).parent
RUNNABLE = [page for page in PAGES if any(word == "run" for block in blocks(page) for word, _ in block.notes)]


@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_commands_says_who_runs_it(page):
    unclear = []
    for block in filter(lambda one: one.shell, blocks(page)):
        said = {word: rest for word, rest in block.notes if word in ("run", "proven by", "not run")}
        proven = said.get("proven by")
        if len(said) != 1 or (proven is not None and not (ROOT / proven).is_file()) or said.get("not run") == "":
            unclear.append(f"{page}:{block.line}")

    assert unclear == [], "put <!-- run -->, <!-- proven by TEST --> or <!-- not run: REASON --> above the block"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Scratch:
    """A directory and an environment in which a page's commands are run, one block after the other."""

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
        done = subprocess.run(
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
        assert done.returncode == code, f"exit code {done.returncode} of\n{script}\n{done.stdout}"
        return done.stdout

    def run(self, block: Block, code: int) -> None:
        if block.language != "console":
            self.shell(block.text, code)
            return
        for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            last = block.text.rstrip("\n").endswith(step.rstrip("\n"))
            said = self.shell(command, code if last else 0)
            pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
            assert re.fullmatch(pattern, said.strip(), re.DOTALL), f"$ {command}\n{said}\nexpected:\n{expected}"


@pytest.mark.parametrize("page", RUNNABLE)
def test_the_commands_of_a_page_do_what_it_says(page, tmp_path):
    scratch = Scratch(tmp_path)
    for block in blocks(page):
        for word, rest in block.notes:
            if word == "file":
                (tmp_path / rest).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / rest).write_text(block.text)
            elif word == "before":
                scratch.shell(rest)
            elif word == "run":
                scratch.run(block, int(rest.removeprefix("exit code ") or 0))


def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    assert (tmp_path / "site" / "hooks.html").stat().st_size > 20_000
    shutil.rmtree(tmp_path / "site")
