"""Software bill of materials in the format CycloneDX 1.5, from the distributions that are bundled."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tools.artifacts import environment, project
from tools.artifacts.wheels import Wheel


def document(own: Wheel, wheels: Mapping[str, Sequence[Wheel]], debian: Iterable[tuple[str, str]], time: int) -> str:
    """Return the document.

    :param debian: names and versions of the Debian packages in the image.
    """
    bundled = [wheel for wheel in environment.distributions(own, wheels) if wheel is not own]
    components = [_python(wheel) for wheel in bundled] + [_debian(name, version) for name, version in debian]
    digest = own.digest
    root = {"type": "application", "bom-ref": "nodeagent", "name": "nodeagent", "version": own.version}
    root |= {"licenses": [{"license": {"id": "Apache-2.0"}}], "purl": f"pkg:pypi/nodeagent@{own.version}"}
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": root | {"hashes": [{"alg": "SHA-256", "content": digest}]},
        },
        "components": components,
        "dependencies": [{"ref": "nodeagent", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(content, indent=1) + "\n"


def _python(wheel: Wheel) -> dict[str, Any]:
    purl = f"pkg:pypi/{wheel.name.lower().replace('_', '-')}@{wheel.version}?file_name={wheel.path.name}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": wheel.name,
        "version": wheel.version,
        "licenses": [{"license": {"name": wheel.license}}],
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": wheel.digest}],
    }


def _debian(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:deb/debian/{name}@{version}?arch={project.architecture()}&distro=debian-12"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
