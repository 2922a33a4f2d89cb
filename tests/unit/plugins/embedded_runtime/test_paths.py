"""Tests for the resolution of paths inside a root directory."""

from __future__ import annotations

import pytest

from nodeagent_plugins.embedded_runtime.paths import resolve_in_root


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/etc/passwd", "etc/passwd"),
        ("../../etc/passwd", "etc/passwd"),
        ("/absolute/passwd", "etc/passwd"),
        ("/climbing/passwd", "etc/passwd"),
        ("/loop/../x", None),
        ("/new/directory/file", "new/directory/file"),
        ("/", "."),
    ],
)
def test_symbolic_links_resolve_inside_the_root(tmp_path, path, found):
    (tmp_path / "etc").mkdir()
    (tmp_path / "absolute").symlink_to("/etc")
    (tmp_path / "climbing").symlink_to("../../../etc")
    (tmp_path / "loop").symlink_to("loop")

    if found is None:
        with pytest.raises(OSError, match="too many links"):
            resolve_in_root(tmp_path, path)
    else:
        assert resolve_in_root(tmp_path, path) == tmp_path / found


@pytest.mark.parametrize(("links", "allowed"), [(40, True), (41, False)])
def test_number_of_links_is_limited(tmp_path, links, allowed):
    for number in range(links):
        (tmp_path / f"link-{number}").symlink_to(f"link-{number + 1}")

    if allowed:
        assert resolve_in_root(tmp_path, "/link-0") == tmp_path / f"link-{links}"
    else:
        with pytest.raises(OSError, match="too many links"):
            resolve_in_root(tmp_path, "/link-0")


def test_last_link_is_not_followed_on_request(tmp_path):
    (tmp_path / "link").symlink_to("/elsewhere")

    assert resolve_in_root(tmp_path, "/link") == tmp_path / "elsewhere"
    assert resolve_in_root(tmp_path, "/link", follow_last=False) == tmp_path / "link"
