"""The audit's verdicts against the truth, in as many small histories as there is time for."""
