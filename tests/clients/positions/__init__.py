"""One suite about offsets over all clients: see `test_positions`."""
