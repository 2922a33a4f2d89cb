"""Coverage-guided fuzzing of the parsers of untrusted input: ``python -m tests.fuzz``."""
