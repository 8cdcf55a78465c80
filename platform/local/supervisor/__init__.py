"""Keeps the platform's processes running: process table, ordered start and stop, probes, restart."""
