"""Who is let in: each way in which a stranger could reach images or labels is tried."""

import pytest
from app_address import HOME, PORT, TOKEN
from fastapi.testclient import TestClient
from PIL import Image

from interlude.app.security import Guard, is_loopback, new_token

OPEN = ["/api/state", "/api/next", "/api/images", "/api/fits", "/api/doctor", "/thumb/0", "/app.js", "/"]
OPEN += [
    "/api/events",
    "/report/001",
    "/api/export/labels.csv",
    "/api/export/model/001",
    "/favicon.svg",
    "/no",
]
WRITES = ["/api/classes", "/api/classes/0", "/api/labels", "/api/undo", "/api/train", "/api/train/stop"]


@pytest.fixture
def stranger(guard):
    """A browser without the token."""
    return TestClient(guard, base_url=HOME)


@pytest.mark.parametrize("path", OPEN)
def test_nothing_is_shown_without_the_token(stranger, path):
    assert stranger.get(path).status_code == 403


@pytest.mark.parametrize("path", WRITES)
def test_nothing_is_done_without_the_token(stranger, path):
    answer = stranger.post(path, json={"names": ["cat"]}, headers={"origin": HOME})
    assert answer.status_code == 403


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], f"{TOKEN}x", "\xe4"])
def test_a_wrong_token_is_none(stranger, token):
    assert stranger.get("/api/state", headers={"x-token": token.encode("latin-1")}).status_code == 403
    assert stranger.get("/", params={"token": token}).status_code == 403


def test_who_is_refused_is_told_what_to_do(stranger):
    assert "address that `interlude app` has printed" in stranger.get("/").text
    assert "error" in stranger.get("/api/state").json()


def test_the_address_with_its_token_opens_the_page_and_all_that_it_loads(stranger):
    assert stranger.get("/", params={"token": TOKEN}).status_code == 200
    for path in ("/", "/app.js", "/api/state", "/thumb/0"):
        assert stranger.get(path).status_code == 200  # the cookie is enough now


def test_the_cookie_is_for_our_page_alone(stranger):
    cookie = stranger.get("/", params={"token": TOKEN}).headers["set-cookie"]
    assert cookie.startswith(f"interlude-{PORT}={TOKEN};")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_a_token_in_the_address_of_anything_but_the_page_is_not_taken(stranger):
    assert stranger.get("/api/state", params={"token": TOKEN}).status_code == 403


def test_strange_cookies_of_other_programs_do_not_lock_us_out(stranger):
    jar = f'username="2|1:0|{{[}}"; =; a; interlude-{PORT}={TOKEN}'
    assert stranger.get("/api/state", headers={"cookie": jar}).status_code == 200


def test_every_start_has_a_token_of_its_own():
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert min(map(len, tokens)) >= 32


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil:{PORT}", ""]
)
def test_a_name_that_was_made_to_lead_here_is_refused(client, host):
    assert client.get("/api/state", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"]
)
def test_our_own_names_are_known(client, host):
    assert client.get("/api/state", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1", HOME + "/"]
)
def test_another_page_cannot_change_anything(client, origin):
    answer = client.post("/api/classes", json={"names": ["cat"]}, headers={"origin": origin})
    assert answer.status_code == 403
    assert client.get("/api/state").json()["classes"] == []


@pytest.mark.parametrize("method", ["post", "delete", "put", "patch", "options"])
def test_a_change_without_an_origin_is_refused(client, method):
    del client.headers["origin"]
    assert getattr(client, method)("/api/classes/0").status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/api/state", "/thumb/0", "/api/export/labels.csv", "/app.js"])
def test_another_page_cannot_even_load_a_picture(client, site, path):
    assert client.get(path, headers={"sec-fetch-site": site}).status_code == 403


def test_a_change_from_another_page_is_refused_whatever_it_says_of_its_origin(client):
    headers = {"sec-fetch-site": "cross-site"}
    assert client.post("/api/undo", headers=headers).status_code == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_page_may_load_and_change(client, site):
    headers = {"sec-fetch-site": site}
    assert client.get("/api/state", headers=headers).status_code == 200
    assert client.post("/api/undo", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/thumb/../../secret.png",
        "/thumb/%2e%2e%2f%2e%2e%2fsecret.png",
        "/thumb/..%5csecret.png",
        "/..%2f..%2fpyproject.toml",
        "/%2fetc%2fpasswd",
        "/page/app.js",
        "/__init__.py",
        "/report/..%2f..",
        "/report/%2e%2e",
        "/api/export/model/..%2f001",
        "/api/export/model/%2e%2e",
    ],
)
def test_no_path_leads_anywhere_but_to_what_is_served(client, folder, path):
    (folder.parent / "secret.png").write_bytes(b"SECRET")
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert "SECRET" not in answer.text


def test_an_image_that_became_a_link_out_of_the_folder_is_not_shown(client, folder, tmp_path):
    secret = tmp_path / "secret.png"
    Image.new("L", (9, 9)).save(secret)
    (folder / "a.png").unlink()
    (folder / "a.png").symlink_to(secret)
    assert client.get("/thumb/0").status_code == 404


def test_a_name_made_of_markup_is_told_as_text(client, project):
    name = '<img src=x onerror="alert(1)">.png'
    project.labels.paths[0] = name
    answer = client.get("/api/images", params={"limit": 1})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["images"][0]["name"] == name


@pytest.mark.parametrize("path", ["/", "/api/state", "/thumb/0", "/api/nothing"])
def test_every_answer_says_what_a_browser_may_do_with_it(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_refusal_has_these_headers_too(stranger):
    assert "frame-ancestors 'none'" in stranger.get("/").headers["content-security-policy"]


def test_the_report_runs_in_a_sandbox_without_our_rights(client, project):
    run = project.place / "fits" / "001"
    run.mkdir()
    (run / "fit.json").write_text("{}")
    (run / "report.html").write_text("<script>1</script>")
    policy = client.get("/report/001").headers["content-security-policy"]
    assert "sandbox allow-scripts" in policy
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


def test_a_body_that_is_too_large_is_not_read(client):
    assert client.post("/api/labels", content=b"x" * (1 << 20) + b"y").status_code == 413


def test_a_body_of_unknown_size_is_not_read(client):
    assert client.post("/api/labels", content=iter([b"x"])).status_code == 413


def test_there_is_no_description_of_the_addresses_for_strangers(client):
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(("host", "loopback"), [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True)])
def test_an_address_of_this_machine_alone_is_known(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "evil.example", ""])
def test_any_other_address_is_one_that_lets_others_in(host):
    assert not is_loopback(host)


def test_a_server_for_all_addresses_still_refuses_names_that_are_not_its_own():
    guard = Guard(None, token=TOKEN, host="0.0.0.0", port=PORT)
    assert guard.is_ours(f"192.168.1.5:{PORT}")
    assert not guard.is_ours(f"evil.example:{PORT}")
