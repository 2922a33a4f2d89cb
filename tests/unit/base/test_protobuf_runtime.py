"""Tests for protobuf without its implementation in Python."""

import json
import os
import subprocess
import sys

import pytest

ROUND_TRIP = """
import json, sys
from nodeagent.base.criproto import api_pb2 as cri

image = cri.Image(id="a", repo_tags=["b"])
assert cri.Image.FromString(image.SerializeToString()) == image
print(json.dumps(sorted(sys.modules)))
"""


def modules_after_round_trip(implementation: str) -> set[str]:
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation}
    done = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP], check=True, capture_output=True, text=True, env=environment
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_python_implementation_is_loaded_only_if_it_is_selected(implementation):
    loaded = "google.protobuf.text_format" in modules_after_round_trip(implementation)

    assert loaded == (implementation == "python")
