"""The law of states: one table as data, and the one place where a status changes."""
