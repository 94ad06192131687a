"""Whole experiments from one command: suites of runs, their results, tables and plots."""
