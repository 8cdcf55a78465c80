"""Send records: `Producer` buffers them, and one thread sends and retries in order."""
