"""`python -m interlude` is the command `interlude`."""

from interlude.cli import main

main()
