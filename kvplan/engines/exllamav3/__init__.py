"""exllamav3."""
