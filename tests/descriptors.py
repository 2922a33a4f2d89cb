"""Open file descriptors of the test process, for tests of code that must close its own."""

import os


def open_descriptors() -> set[tuple[int, str]]:
    """Return number and target of each open descriptor.

    Compare with ``<=``: a garbage collection may close descriptors of earlier tests between two calls.
    """
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:  # The descriptor of the directory listing itself.
            continue
    return found
