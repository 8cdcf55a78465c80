"""Runs the measures: children, the servers of a run, a machine at rest, rounds. Knows no server and no measure by name."""
