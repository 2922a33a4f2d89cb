"""``python -m tests.fuzz``: fuzz targets, one after the other, and list the findings."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import selection, targets
from tests.fuzz.target import ROOT, TARGETS, Target, check, strict
from tests.memory import memory_directory

BUILD = ROOT / "build" / "fuzz"
HANG_SECONDS = 30
MAX_MEMORY_MIB = 2048
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)|^#(\d+)\t", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """Result of fuzzing one target."""

    inputs: int
    findings: int
    """Inputs with different causes."""


def main() -> int:
    options = _options()
    chosen = [TARGETS[name] for name in options.targets or sorted(TARGETS)]
    if options.input is not None:
        return _reproduce(chosen, options.input)
    if options.store:
        for target in chosen:
            selection.store(target, _working(target))
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: make fuzz, or pip install -e '.[fuzz]'", file=sys.stderr)
        return 2
    total = Run(0, 0)
    for target in chosen:
        run = _fuzz(target, options.seconds, options.seed)
        print(f"{target.name:24} {run.inputs:10} inputs {run.findings:4} findings", flush=True)
        total = Run(total.inputs + run.inputs, total.findings + run.findings)
    print(f"{'total':24} {total.inputs:10} inputs {total.findings:4} findings")
    return 1 if total.findings else 0


def _fuzz(target: Target, seconds: int, seed: int) -> Run:
    working, findings, log = _working(target), BUILD / target.name / "findings", BUILD / target.name / "log"
    for directory in (working, findings, target.corpus):
        directory.mkdir(parents=True, exist_ok=True)
    dictionary = BUILD / target.name / "dictionary"
    dictionary.write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens or (b"\0",)))
    command = [
        *(sys.executable, "-m", "tests.fuzz.engine", target.run.__module__, target.name, str(findings)),
        *(f"-max_total_time={seconds}", f"-max_len={target.max_bytes}", f"-seed={seed}", f"-timeout={HANG_SECONDS}"),
        *(f"-rss_limit_mb={MAX_MEMORY_MIB}", f"-artifact_prefix={findings}/", f"-dict={dictionary}"),
        *("-print_final_stats=1", "-reload=0", str(working), str(target.corpus)),
    ]
    before = set(findings.iterdir())
    # libFuzzer exits without cleaning up.
    with log.open("wb") as errors, tempfile.TemporaryDirectory(dir=memory_directory(), prefix="fuzz-") as temporary:
        environment = {**os.environ, "TMPDIR": temporary}
        done = subprocess.run(command, cwd=ROOT, env=environment, stderr=errors, check=False)
    text = log.read_text(errors="replace")
    found = len(set(findings.iterdir()) - before)
    if done.returncode:
        print(f"{target.name} exited with code {done.returncode}:\n{text[-2000:]}")
        found = max(found, 1)
    counts = [int(first or second) for first, second in _EXECUTED.findall(text)]
    return Run(max(counts, default=0), found)


def _working(target: Target) -> Path:
    """Return the directory of the inputs that the fuzzer added, which later runs start with."""
    return BUILD / target.name / "corpus"


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


def _reproduce(chosen: Sequence[Target], path: Path) -> int:
    data, found = path.read_bytes(), 0
    with strict():
        for target in chosen:
            if finding := check(target, data):
                print(f"{target.name}: {finding.cause}\n{finding.text}")
                found = 1
    return found


def _options() -> argparse.Namespace:
    targets.load()
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Fuzz the parsers of untrusted input, guided by coverage. Findings are stored in build/fuzz.",
    )
    parser.add_argument("--seconds", type=int, default=60, help="time per target (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutations (default: 0, a random one)")
    parser.add_argument("--input", type=Path, help="run the targets with this file only, to reproduce a finding")
    parser.add_argument(
        "--store", action="store_true", help="add those inputs to tests/fuzz/corpus that execute further lines"
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"targets (default: all): {', '.join(sorted(TARGETS))}"
    )
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
