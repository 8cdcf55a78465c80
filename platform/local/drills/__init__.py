"""Plants faults in the running platform, to check that the audit finds them."""
