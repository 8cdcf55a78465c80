"""The files of `[[tail]]` sections as sources, over rotation, compression and restarts; `make` puts a section together."""
