"""The verb `predict`: any number of image files in, a table of verdicts out."""
