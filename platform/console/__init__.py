"""The platform's console: pages that say what is wrong, what to do, and what each part holds (decision 65)."""
