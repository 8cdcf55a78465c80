"""Checkpoints of the store on a topic of their own, so that the audit topic need not be kept for ever."""
