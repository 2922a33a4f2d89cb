"""Generic API machinery: objects, requests, statuses, media types and patches. No I/O."""
