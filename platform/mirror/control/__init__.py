"""Steering a running mirror: a file beside its status file holds what an operator wishes (pause, throttle), by mirror and by
topic.

A file, because a mirror serves no port and may run without ZooKeeper, and because a wish must outlive the process: a paused
mirror that restarts stays paused. `headrace mirror pause|resume|throttle` write it, the mirror reads it every second and says in
its status which one it follows.
"""
