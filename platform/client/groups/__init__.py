"""Consumer groups as an administrator sees them, of both kinds: our broker lists those that coordinate through ZooKeeper, too.

`group_admin` lists and describes; `reset_targets` computes where a group is to begin; `record_steps` counts records in a log
whose offsets are positions in bytes.
"""
