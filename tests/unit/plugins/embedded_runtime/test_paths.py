"""No link leads out of a root."""

from __future__ import annotations

import pytest

from nodeagent_plugins.embedded_runtime.paths import beneath


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/etc/passwd", "etc/passwd"),
        ("../../etc/passwd", "etc/passwd"),
        ("/absolute/passwd", "etc/passwd"),
        ("/climbing/passwd", "etc/passwd"),
        ("/loop/../x", None),
        ("/new/folder/file", "new/folder/file"),
        ("/", "."),
    ],
)
def test_links_stay_inside(tmp_path, path, found):
    (tmp_path / "etc").mkdir()
    (tmp_path / "absolute").symlink_to("/etc")
    (tmp_path / "climbing").symlink_to("../../../etc")
    (tmp_path / "loop").symlink_to("loop")

    if found is None:
        with pytest.raises(OSError, match="too many links"):
            beneath(tmp_path, path)
    else:
        assert beneath(tmp_path, path) == tmp_path / found


def test_a_last_link_may_be_left_alone(tmp_path):
    (tmp_path / "link").symlink_to("/elsewhere")

    assert beneath(tmp_path, "/link") == tmp_path / "elsewhere"
    assert beneath(tmp_path, "/link", follow_last=False) == tmp_path / "link"
