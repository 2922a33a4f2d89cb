"""From what was observed to what the API shows: status generation, patches, mirror pods."""
