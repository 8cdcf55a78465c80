"""Sending records: `Producer` buffers, one thread sends and retries in order."""
