"""What is raised where a file holds no picture that can be used."""


class Unreadable(Exception):
    """A file that cannot be used as an image; `reason` says why, in words that follow the file's name."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
