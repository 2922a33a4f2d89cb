"""Shared ground of both programs: code without a domain word, importing nothing else of this project."""
