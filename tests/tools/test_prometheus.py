"""hakmem serve and contrib/, with the real Prometheus and its promtool."""

import json
import re
import time
import urllib.parse
import urllib.request

from common import *
from serving import ServeCase
from test_stats import HELD
from test_stats_redis import start_redis

CONTRIB = os.path.join(SOURCE, "contrib")
RULES = os.path.join(CONTRIB, "prometheus/hakmem.rules.yml")
DASHBOARD = os.path.join(CONTRIB, "grafana/hakmem.json")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class PromtoolCase(ServeCase):
    def setUp(self):
        super().setUp()
        if shutil.which("promtool") is None or shutil.which("prometheus") is None:
            self.skipTest("prometheus is not installed")

    def promtool(self, *arguments, code=0):
        result = execute(["promtool", *arguments])
        self.assert_code(result, code)
        return result


class Contrib(PromtoolCase):
    def test_alerts(self):
        self.assertIn("7 rules found", self.promtool("check", "rules", RULES).out)
        for name in ("prometheus", "machines"):
            self.promtool("check", "config", "--syntax-only", os.path.join(CONTRIB, f"prometheus/{name}.yml"))
        hours, minutes = (read(os.path.join(SOURCE, f"tests/tools/{name}.yml")) for name in ("alerts", "alerts_limits"))
        for tests in (hours, minutes):
            self.promtool("test", "rules", self.write("alerts.yml", tests.replace("RULES", RULES)))
        # The tests do fail where a rule is another.
        grown = "(hakmem:in_use_bytes:min1h offset {}h)"
        for tests, rule, other in (
            (hours, "1.01 *", "2 *"), (hours, "1.01 *", "1 *"), (hours, "64 * 1024", "6400 * 1024"), (hours, "caches|fragmentation", "caches"),
            (hours, "for: 2h", "for: 4h"), (hours, "min_over_time", "max_over_time"), (hours, "> 256 * 1024 * 1024", "> 1024"),
            (hours, "< 1.1 *", "< 2.1 *"), (hours, f"hakmem:in_use_bytes:min1h > {grown.format(1)}", "hakmem:in_use_bytes:min1h > 0"),
            (hours, "min1h offset 6h) > 64", "min1h offset 6h) > 64000"),
            (minutes, "> 0.9\n", "> 0.85\n"), (minutes, "> 0.05\n", "> 0.03\n"), (minutes, "for: 2m", "for: 20m"),
            (minutes, '{limit="container"} /', "/"), (minutes, "< 3600", "< 36000"), (minutes, "> 0) <", "> -1e9) <"), (minutes, "> 0.7\n", "> 0.1\n"),
        ):  # fmt: skip
            self.assertIn(rule, read(RULES))
            changed = self.write("changed.yml", read(RULES).replace(rule, other))
            with self.subTest(rule=rule):
                self.promtool("test", "rules", self.write("alerts.yml", tests.replace("RULES", changed)), code=1)

    def test_metrics_are_named_as_prometheus_wants(self):
        [(pid, _)] = self.start(HELD, "threads")
        for text in (self.serve(pid).ask("/metrics").text, hakmem("stats", "--format=prometheus", str(pid)).out):
            self.assertIn("hakmem_resident_bytes{", text)
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, timeout=60, check=False,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
            self.assertEqual((checked.returncode, checked.stdout), (0, ""))

    def test_contrib_names_metrics_that_there_are(self):
        [(pid, _)] = self.start(HELD, "threads")
        there = set(re.findall(r"^# TYPE (\w+)", self.serve(pid).ask("/metrics").text, re.MULTILINE))
        for path in (RULES, DASHBOARD):
            named = set(re.findall(r"\bhakmem_\w+", read(path)))
            self.assertGreaterEqual(len(named), 3)
            self.assertEqual(named - there, set(), path)

    def test_dashboard(self):
        dashboard = json.loads(read(DASHBOARD))
        panels = dashboard["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            self.assertLessEqual(place["x"] + place["w"], 24)
            self.assertEqual(taken & cells, set(), panel["title"])
            taken |= cells
        # Its queries are ones, once its variables have values.
        variables = {variable["name"] for variable in dashboard["templating"]["list"]}
        rules = []
        for panel in panels:
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", "5m")
                self.assertLessEqual(set(re.findall(r"\$(\w+)", query)), variables)
                rules.append({"record": f"a:{len(rules)}", "expr": re.sub(r"\$\w+", ".*", query)})
        self.assertGreaterEqual(len(rules), 20)
        # JSON is YAML, too.
        file = self.write("queries.yml", json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
        self.assertIn(f"{len(rules)} rules found", self.promtool("check", "rules", file).out)


class Prometheus(PromtoolCase):
    def api(self, what, **arguments):
        url = f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=30) as response:
            return json.load(response)["data"]

    def query(self, query):
        """What it answers: labels and value of each."""
        return [(row["metric"], float(row["value"][1])) for row in self.api("query", query=query)["result"]]

    def wait(self, what):
        """Until it is true; the test ends by its own time limit where it never is."""
        while not (value := what()):
            self.assertIsNone(self.prometheus.poll())
            time.sleep(0.1)
        return value

    def start_prometheus(self, *servers, token=None):
        targets = [f"{server.host}:{server.port}" for server in servers]
        shutil.copy(RULES, self.directory)
        config = read(os.path.join(CONTRIB, "prometheus/prometheus.yml"))
        config = config.replace("scrape_interval: 30s", "scrape_interval: 500ms").replace('["127.0.0.1:9105"]', json.dumps(targets))
        if token is not None:
            config = config.replace("    static_configs:", f"    authorization:\n      credentials_file: {token}\n    static_configs:")
        log = self.path("log")
        with open(log, "wb") as output:
            self.prometheus = subprocess.Popen(
                ["prometheus", "--config.file=" + self.write("prometheus.yml", config), "--web.listen-address=127.0.0.1:0",
                 "--storage.tsdb.path=" + self.path("data")],
                cwd=self.directory, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # fmt: skip
        self.addCleanup(self.prometheus.wait)
        self.addCleanup(self.prometheus.terminate)
        self.address = self.wait(lambda: re.search(r'msg="Listening on" address=(\S+)', read(log)))[1]
        self.wait(lambda: "Server is ready to receive web requests" in read(log))

    def test_a_machine(self):
        token = self.write("token", "a token of some 30 characters\n", 0o600)
        server = self.serve("--all", "--token-file", token)
        [(first, _)] = self.start(HELD, "threads")
        [(second, _)] = self.start(HELD, "small")
        self.start_prometheus(server, token=token)
        pids = {str(first), str(second)}
        self.wait(lambda: pids <= {row[0]["pid"] for row in self.query('hakmem_resident_bytes{program="held"}')})
        self.assertEqual([(target["health"], target["lastError"]) for target in self.api("targets")["activeTargets"]], [("up", "")])
        # All that was read is there, once for each process.
        self.wait(lambda: {row[1] for row in self.query("hakmem_processes - on () count(hakmem_resident_bytes)")} == {0})
        self.assertEqual({row[0]["reason"] for row in self.query("hakmem_processes_left_out")}, {"late", "time", "number", "unreadable"})
        [(third, _)] = self.start(HELD, "small")
        self.wait(lambda: str(third) in {row[0]["pid"] for row in self.query("hakmem_resident_bytes")})
        os.kill(first, signal.SIGKILL)
        self.wait(lambda: str(first) not in {row[0]["pid"] for row in self.query("hakmem_resident_bytes")})
        # Without the token it is down.
        self.write("token", "another token that Prometheus will read, too\n", 0o600)
        self.wait(lambda: [value for _, value in self.query("up")] == [1])
        os.rename(token, token + ".gone")
        self.wait(lambda: [value for _, value in self.query("up")] == [0])

    def test_a_redis_and_a_server_with_threads(self):
        redis = start_redis(self)
        [(server, _)] = self.start(os.environ["HAKMEM_TEST_SERVER"])
        served = self.serve(redis.pid), self.serve(server)
        self.start_prometheus(*served)
        pids = {str(redis.pid), str(server)}
        self.wait(lambda: {row[0]["pid"] for row in self.query("hakmem_resident_bytes")} == pids)
        targets = self.api("targets")["activeTargets"]
        self.assertEqual([(target["health"], target["lastError"]) for target in targets], [("up", "")] * 2)
        self.assertEqual([value for _, value in self.query("up")], [1, 1])
        # Asked of Prometheus and of hakmem serve: once redis rests, they say the same.
        series = f'hakmem_in_use_bytes{{pid="{redis.pid}",program="{served[0].line.split()[1]}"}}'
        [labels], [value] = zip(*self.wait(lambda: [
            row for row in self.query(series) if f"{series} {row[1]:.0f}\n" in served[0].ask("/metrics").text]))  # fmt: skip
        self.assertEqual(labels["instance"], f"{served[0].host}:{served[0].port}")
        self.assertGreater(value, 20 << 20)
        # The units came along, so it was OpenMetrics that it took.
        self.assertEqual(self.api("metadata", metric="hakmem_resident_bytes")["hakmem_resident_bytes"][0]["unit"], "bytes")
        self.assertEqual(self.api("metadata", metric="hakmem_system_calls")["hakmem_system_calls"][0]["type"], "counter")
        # The server allocates.
        self.wait(lambda: [value for _, value in self.query(f'rate(hakmem_allocated_bytes_total{{pid="{server}"}}[1m])') if value > 0])
        [group] = self.api("rules")["groups"]
        self.assertEqual([rule["name"] for rule in group["rules"]],
                         ["hakmem:in_use_bytes:min1h", "HakmemMemoryGrows", "HakmemMemoryHeldNotLive", "HakmemNearLimitWithMuchToGive",
                          "HakmemLimitWithinAnHour", "hakmem:allocated_bytes:rate1h", "HakmemLeakSuspected"])  # fmt: skip
        os.kill(server, signal.SIGKILL)
        self.wait(lambda: [labels for labels, value in self.query("up == 0") if str(served[1].port) in labels["instance"]])
        self.assertEqual(served[1].process.wait(timeout=30), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # so that the reason of a skip is printed
