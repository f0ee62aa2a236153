"""hakmem explain: a redis that was started with nothing but LD_PRELOAD, and lost 15 in 16 of its keys."""

import json

from common import *

MIB = 1 << 20


class Redis(TestCase):
    def test_keys_that_stay_keep_pages(self):
        server = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        if server is None or shutil.which("redis-cli") is None:
            self.skipTest("redis-tools is not installed")
        # Debian has the server in that package as well, under the name of its checker.
        socket = self.path("redis.sock")
        process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", ""],
                                   executable=server, env=environment(LD_PRELOAD=LIBRARY), cwd=self.directory,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        while process.poll() is None and execute(["redis-cli", "-s", socket, "ping"]).out != "PONG\n":
            pass
        self.assertIsNone(process.poll())
        fill = "for i=1,200000 do redis.call('set', i, string.rep('x', i % 500)) end"
        thin = "for i=1,200000 do if i % 16 ~= 0 then redis.call('del', i) end end"
        for script in (fill, thin):
            self.assert_code(execute(["redis-cli", "-s", socket, "eval", script, "0"]), 0)
        result = hakmem("explain", "--format=json", str(process.pid))
        self.assert_code(result, 0)
        figures = json.loads(result.out)
        pinned = [reason for reason in figures["reasons"] if reason["kind"] == "pinned"]
        self.assertGreater(sum(reason["bytes"] for reason in pinned), 10 * MIB, figures)
        # The objects of keys and of values.
        self.assertLessEqual({16, 32}, {reason["size"] for reason in pinned}, figures)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
