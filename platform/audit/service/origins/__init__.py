"""Where records of the offline cluster came from, when a mirror could not keep their offsets."""
