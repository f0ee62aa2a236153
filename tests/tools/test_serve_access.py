"""hakmem serve --all: who may ask."""

import stat

from common import *
from serving import TOKEN, AllCase, Server


class Access(AllCase):
    def test_without_the_token_nothing_is_told(self):
        server = self.serve()
        for path in ("/", "/metrics", "/debug/pprof/heap?pid=1", "/no-such-page"):
            for header in ({}, {"authorization": "Bearer x"}, {"authorization": "Bearer " + TOKEN + "x"}, {"authorization": "Bearer " + TOKEN[:-1]},
                           {"authorization": "Basic " + TOKEN}, {"authorization": TOKEN}, {"authorization": "Bearer"}, {"authorization": "Bearer "}):  # fmt: skip
                response = server.ask(path, **header)
                self.assertEqual((response.status, response.getheader("www-authenticate")), (401, "Bearer"), header)
                self.assertNotIn("hakmem_", response.text)
        self.assertEqual(self.ask(server, "/metrics").status, 200)
        self.assertEqual(server.ask("/metrics", authorization="bearer  " + TOKEN).status, 200)

    def test_token_that_changes(self):
        server = self.serve()
        self.assertEqual(self.ask(server, "/metrics").status, 200)
        self.write("token", "another one, as long as the first\n", 0o600)
        self.assertEqual(self.ask(server, "/metrics").status, 401)
        self.assertEqual(server.ask("/metrics", authorization="Bearer another one, as long as the first").status, 200)
        for content in ("", "\n", "short\n", "x" * 5000):
            self.write("token", content, 0o600)
            for told in (content.strip(), "", TOKEN):
                self.assertEqual(server.ask("/metrics", authorization="Bearer " + told[:4000]).status, 401, content[:10])
        os.unlink(self.token)
        self.assertEqual(self.ask(server, "/metrics").status, 401)
        self.write("token", TOKEN, 0o600)
        self.assertEqual(self.ask(server, "/metrics").status, 200)

    def test_token_that_others_may_read(self):
        nobody, others = os.geteuid() == 0 and 65534, "others than its owner may read it: chmod 600"
        server = self.serve()
        for owner, mode, granted in ((0, 0o644, False), (0, 0o640, True), (0, 0o400, True), (nobody, 0o640, False), (nobody, 0o600, True)):
            if owner is not False and os.geteuid() == 0:
                os.chown(self.token, owner, -1)
            elif mode & 0o77:  # it is our own
                granted = False
            os.chmod(self.token, mode)
            with self.subTest(owner=owner, mode=f"{mode:o}"):
                self.assertEqual(self.ask(server, "/metrics").status, 200 if granted else 401)
                if not granted:
                    refused = hakmem("serve", "--all", "--port=0", "--token-file", self.token)
                    self.assert_code(refused, 2)
                    self.assertIn(others, refused.err)
        self.assertEqual(server.end(), 0)
        self.assertIn(others, server.process.stderr.read())

    def test_refusals(self):
        short = self.write("short", "short\n", 0o600)
        for arguments, code, says in (
            (["--all", "--port=0"], 2, "--all at a port needs --token-file"),
            (["--all", "1", "--socket=x"], 2, "or use --all"),
            (["--all", "--name=x", "--socket=x"], 2, "or use --all"),
            (["1", "--port=0", "--allow-remote"], 2, "--allow-remote needs --token-file"),
            (["1", "--port=0", "--classes"], 2, "go with --all"),
            (["1", "--port=0", "--deadline=1"], 2, "go with --all"),
            (["--all", "--port=0", "--token-file", self.path("none")], 2, "No such file"),
            (["--all", "--port=0", "--token-file", short], 2, "its first line has 5 bytes"),
            (["--all", "--port=0", "--mode=660", "--token-file", self.token], 2, "--mode goes with --socket"),
            (["--all", "--port=0", "--mode=600", "--token-file", self.token], 2, "--mode goes with --socket"),
            (["--all", "--socket=" + "x" * 200], 2, "1 to 107 bytes"),
            (["--all", "--socket=x", "--mode=8"], 2, "octal"),
            (["--all", "--socket=x", "--mode=7777"], 2, "octal"),
            (["--all", "--socket=x", "--most=0"], 2, "1..100000"),
            (["--all", "--socket=x", "--deadline=0"], 2, "0.1..60"),
            (["--all", "--socket=x", "--deadline=nan"], 2, "0.1..60"),
            (["--all", "--port=0", "--host=0.0.0.0", "--token-file", self.token], 2, "--allow-remote"),
            (["--all", "--port=0", "--host=::", "--token-file", self.token], 2, "--allow-remote"),
        ):
            with self.subTest(arguments=arguments):
                result = hakmem("serve", *arguments)
                self.assert_code(result, code)
                self.assertIn(says, result.err)

    def test_remote_where_it_is_allowed(self):
        server = self.serve(at=("--host=0.0.0.0", "--port=0", "--allow-remote"))
        server.host = "127.0.0.1"
        self.assertEqual(server.ask("/metrics").status, 401)
        self.assertEqual(self.ask(server, "/metrics").status, 200)

    def test_socket_has_its_mode_and_needs_no_token(self):
        for mode in (None, 0o660, 0o600):
            path = self.path(f"socket-{mode}")
            more = () if mode is None else (f"--mode={mode:o}",)
            server = Server(self, "--all", *more, at=("--socket", path))
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode or 0o600)
            self.assertEqual(server.ask("/metrics").status, 200)
            self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
