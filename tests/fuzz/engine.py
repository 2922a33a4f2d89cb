"""``python -m tests.fuzz.engine TARGET …``: process that fuzzes one target with atheris.

libFuzzer, which atheris uses, never returns and stops at the first crash. Errors are therefore recorded here, one input
per cause, and only time limits and crashes of the interpreter stop it.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import resource
import sys
import time
from pathlib import Path

import atheris

from tests.fuzz.target import TARGETS, Finding, Target, check, strict

MAX_SECONDS = 2.0
"""CPU time of an input above which it is a finding, if it takes that long twice."""
MAX_GROWTH_KIB = 256 * 1024
"""Growth of the memory by one input above which it is a finding."""
# Generated code, and libraries whose input the product limits.
INSTRUMENTED = ("nodeagent", "nodeagent_plugins", "apiserver_stub", "h11", "h2", "hpack", "hyperframe")


class Fuzzer:
    """Entry point of libFuzzer for one target."""

    def __init__(self, target: Target, findings: Path) -> None:
        self._target, self._findings = target, findings
        self._seen: set[str] = set()

    def run(self, data: bytes) -> None:
        memory, started = _peak_kib(), time.process_time()
        finding = check(self._target, data)
        if time.process_time() - started > MAX_SECONDS and self._is_slow(data):
            finding = Finding(f"more than {MAX_SECONDS} s", "")
        elif _peak_kib() - memory > MAX_GROWTH_KIB:
            finding = Finding(f"more than {MAX_GROWTH_KIB} KiB", "")
        if finding is not None and finding.cause not in self._seen:
            self._seen.add(finding.cause)
            self._record(finding, data)

    def _is_slow(self, data: bytes) -> bool:
        started = time.process_time()
        check(self._target, data)
        return time.process_time() - started > MAX_SECONDS

    def _record(self, finding: Finding, data: bytes) -> None:
        path = self._findings / hashlib.sha256(data).hexdigest()[:12]
        path.write_bytes(data)
        report(self._target, finding, path, data)


def report(target: Target, finding: Finding, path: Path, data: bytes) -> None:
    """Print *finding* with its input and the command that reproduces it."""
    print(
        f"FINDING in {target.name}: {finding.cause}\n{finding.text}input: {data!r}\n"
        f"reproduce: python -m tests.fuzz --input {path} {target.name}",
        flush=True,
    )


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    module, name, findings, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=list(INSTRUMENTED), enable_loader_override=False):
        importlib.import_module(module)
    fuzzer = Fuzzer(TARGETS[name], Path(findings))
    gc.freeze()
    with strict():
        atheris.Setup([sys.argv[0], *arguments], fuzzer.run)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
