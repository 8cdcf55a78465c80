"""Checks of a window that stand by themselves, a file each: what is believed, and what is said where it does not hold. Pure."""
