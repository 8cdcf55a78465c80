"""Avro schemas as values: parsing, canonical text, fingerprints, resolution, the seven compatibility levels. Pure."""
