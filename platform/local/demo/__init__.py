"""`make demo`: the whole pipeline once, and what of its result is its own."""
