"""`make demo`: runs the whole pipeline once, and shows the part of the result that is this demo's own."""
