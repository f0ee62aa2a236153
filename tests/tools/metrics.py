"""OpenMetrics, read by the parser of prometheus_client."""

import json
import unittest

from common import *

# Debian's package is for Debian's Python, which may not be the one that runs this.
PARSE = """if True:
    import json, sys
    from prometheus_client.openmetrics import parser
    families = parser.text_string_to_metric_families(sys.stdin.read())
    print(json.dumps({family.name: {"type": family.type, "unit": family.unit, "help": family.documentation,
                                    "samples": [[s.name, s.labels, s.value] for s in family.samples]}
                      for family in families}))"""


def parse(text):
    """Families by name; an error where the text is not OpenMetrics."""
    pythons = [python for python in (sys.executable, "/usr/bin/python3")
               if execute([python, "-c", "import prometheus_client.openmetrics.parser"]).code == 0]  # fmt: skip
    if not pythons:
        raise unittest.SkipTest("python3-prometheus-client is not installed")
    parsed = subprocess.run([pythons[0], "-c", PARSE], input=text, text=True, check=True, timeout=60,
                            stdout=subprocess.PIPE)  # fmt: skip
    return json.loads(parsed.stdout)


def values(families, name, label):
    """The values of a family by one of its labels."""
    return {labels[label]: value for _, labels, value in families[name]["samples"]}
