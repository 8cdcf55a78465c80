"""The group protocol as a pure machine: no socket, no clock."""
