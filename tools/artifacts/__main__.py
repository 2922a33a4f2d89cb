"""``make dist``: build all artifacts into ``dist/``; two builds of one commit are identical."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tools.artifacts import deb, executable, image, packages, parsers, project, sbom, wheels

KINDS = ("python", "deb", "executable", "image")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make dist", description=__doc__)
    parser.add_argument("--output", type=Path, default=project.ROOT / "dist", help="default: %(default)s")
    parser.add_argument("--cache", type=Path, default=project.ROOT / "build/dist", help="default: %(default)s")
    parser.add_argument("--version", help="version of the Debian packages (default: from git)")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    arguments = parser.parse_args()
    if unknown := set(arguments.kinds) - set(KINDS):
        parser.error(f"unknown kind: {', '.join(sorted(unknown))}")
    build(arguments.output, arguments.cache, arguments.version, arguments.kinds or KINDS)
    for path in sorted(arguments.output.iterdir()):
        print(f"{path.stat().st_size:>11}  {path.name}")
    return 0


def build(output: Path, cache: Path, version: str | None, kinds: list[str] | tuple[str, ...]) -> None:
    """Replace *output* with the artifacts of *kinds*."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    cache.mkdir(parents=True, exist_ok=True)
    time, architecture = project.source_date(), project.architecture()
    own = wheels.Wheel(wheels.build(output)[0])
    dependencies = wheels.download(cache)
    version = version or project.package_version()
    commands = parsers.executables()
    if "deb" in kinds:
        for package in packages.packages(own, dependencies, commands, version, time):
            deb.write(package, version, architecture, packages.MAINTAINER, time, output)
    if "executable" in kinds:
        executable.write(output / f"nodeagent-{project.version()}-{architecture}.pyz", own, dependencies, time)
    debian = []
    if "image" in kinds:
        path = output / f"nodeagent-apiserver-{project.version()}-{architecture}.oci.tar"
        debian = image.write(path, own, dependencies, cache, time)
    (output / "sbom.cdx.json").write_text(sbom.document(own, dependencies, debian, time))
    (output / "RELEASE-NOTES.md").write_text(release_notes(time))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(output.iterdir())]
    (output / "SHA256SUMS").write_text("".join(sums))


def release_notes(time: int) -> str:
    """Return the changes since the last release, with the date of the artifacts."""
    date = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d")
    command = [sys.executable, str(project.ROOT / "tools/changelog.py"), "--date", date]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
