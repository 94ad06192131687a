"""One file per method; its name is the file's name. Nothing else needs to know that it is here."""

DEFAULT = "interlude"  # the method of a run that names none
LABELS_ONLY = "supervised"  # what every method is compared with
