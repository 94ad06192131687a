"""Where the server of the tests is, and what opens it."""

TOKEN, PORT = "a-token-that-nobody-guesses", 8123
HOME = f"http://127.0.0.1:{PORT}"
