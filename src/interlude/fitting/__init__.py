"""From a folder of images and a few labels to a model and an honest number."""
