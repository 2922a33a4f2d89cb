"""Pod Security Standards: levels, versions and checks."""
