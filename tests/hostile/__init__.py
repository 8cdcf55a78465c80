"""Attacks on a registry, an audit service and a broker of this machine, under a small workload (`make hostile`)."""
