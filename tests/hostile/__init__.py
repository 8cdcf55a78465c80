"""Attacks on a registry and an audit service of this machine, under a small workload (`make hostile`)."""
