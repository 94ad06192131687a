"""One file per data set or family of data sets: a file placed here is found by itself."""
