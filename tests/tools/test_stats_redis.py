"""hakmem stats: a redis that was started with nothing but LD_PRELOAD."""

from common import *
from test_stats import MIB, StatsCase


def start_redis(case):
    """One with 100,000 keys, of 45 MB, that rests."""
    server = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if server is None or shutil.which("redis-cli") is None:
        case.skipTest("redis-tools is not installed")
    # Debian has the server in that package as well, under the name of its checker.
    socket = case.path("redis.sock")
    process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", ""],
                               executable=server, env=environment(LD_PRELOAD=LIBRARY), cwd=case.directory,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    case.addCleanup(process.wait)
    case.addCleanup(process.terminate)
    while process.poll() is None and execute(["redis-cli", "-s", socket, "ping"]).out != "PONG\n":
        pass
    fill = "for i=1,100000 do redis.call('set', i, string.rep('x', i % 500)) end"
    case.assert_code(execute(["redis-cli", "-s", socket, "eval", fill, "0"]), 0)
    return process


class Redis(StatsCase):
    def test_redis(self):
        process = start_redis(self)
        # Redis has its own allocator's statistics built in where it was linked with one, and takes its blocks by malloc here.
        result = hakmem("stats", str(process.pid))
        if "does not run on hakmem" in result.err:
            self.fail(result)
        self.assert_live(process.pid, 20 * MIB, 80 * MIB)
        profile = hakmem("prof", str(process.pid))
        self.assert_code(profile, 0)
        top = hakmem("top", "--once", str(process.pid))
        self.assertIn("allocated in", top.out)
        if NAMES:
            # Its own functions, though it was built without debugging information.
            self.assertRegex(profile.out, r"\bz(try)?malloc")
            self.assertRegex(profile.out, r"\b(_?sdsnewlen|createStringObject|dbAdd|dictAddRaw|createObject)")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
