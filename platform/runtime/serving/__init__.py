"""What every HTTP service of ours holds against clients that wish it no good: bounds of a connection, rules for browsers."""
