"""How applications read events: the counterpart of `headrace.sdk`."""
