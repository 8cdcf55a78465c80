"""What a mirror copies besides records, when it is told to: topic settings and the committed offsets of consumer groups.

Each of the two turns on at an interval, on one thread of its own; the copying waits for neither. The words are MirrorMaker's:
`sync.topic.configs`, `sync.group.offsets`, `config.properties.exclude`, `groups`, `groups.exclude`.
"""
