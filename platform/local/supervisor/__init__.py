"""Keeps the processes of the platform running: process table, ordered start and stop, probes, restart."""
