"""The page on which a folder of images is labeled: a server on this machine, and what it keeps."""
