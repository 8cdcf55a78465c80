"""The settings of a broker and of its topics: definitions, sources and checks."""
