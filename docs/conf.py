"""Sphinx configuration; pages of methods and the index of decisions are made at each build."""

import sys
from pathlib import Path

import interlude

sys.path.insert(0, str(Path(__file__).parent))
from pages import write_decision_index, write_method_pages, write_speed_table

project = "interlude"
author = "the interlude developers"
release = version = interlude.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "interlude"
exclude_patterns = ["_build", "learning.md", "speed-table.md"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"

write_method_pages(Path(__file__).parent / "methods")
write_decision_index(Path(__file__).parent / "decisions")
write_speed_table(Path(__file__).parent / "speed-table.md")
