"""A real-time consumer service: requests per minute, counted exactly once."""
