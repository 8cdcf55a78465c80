"""Schemas before data: the registry's topic is copied first, so that no record arrives whose schema has not."""
