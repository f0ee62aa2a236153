#!/usr/bin/env python3
"""What checks cost ten short programs: instructions (valgrind's callgrind) and page faults, beside the standard build (docs/hardened.md).

usage: hardened_programs.py NAME=LIBRARY[,VARIABLE=VALUE...]...     the first is what the others are compared with; an empty library: libc's malloc

    bench/hardened_programs.py standard=build/standard/libhakmem.so light=build/hardened/libhakmem.so,HAKMEM_GUARD=light \\
        full=build/hardened/libhakmem.so,HAKMEM_GUARD=full glibc= mimalloc-secure=build/peers/libmimalloc-secure.so

Counts do not depend on what else the machine does. An allocator that valgrind cannot run has page faults alone. A program that is not
installed is left out.
"""

import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = [{"id": i, "name": f"user{i % 97}", "v": i * 7 % 1000} for i in range(4000)]
FILES = {
    "rows.json": json.dumps({"rows": ROWS[:900]}),
    "rows.xml": "<rows>" + "".join(f'<row id="{r["id"]}"><name>{r["name"]}</name><v>{r["v"]}</v></row>\n' for r in ROWS) + "</rows>",
    "lines.txt": "".join(f"{r['id']} {r['name']} {'x' * (r['v'] % 40)}\n" for r in ROWS[:2500]),
    "rows.py": """import json
rows = [{"id": i, "name": "user%d" % (i % 97), "tags": ["a%d" % (i % 7), "b"], "v": i * 7 % 1000} for i in range(900)]
groups = {}
for row in json.loads(json.dumps(rows)): groups.setdefault(row["name"], []).append(row["v"])
print(sum(map(sum, groups.values())))
""",
    "rows.sql": """create table t(id integer, name text, v integer);
with recursive n(i) as (select 1 union all select i+1 from n where i<4000) insert into t select i,'user'||(i%97),i*7%1000 from n;
create index byname on t(name);
select name,count(*),max(v),group_concat(v) from t group by name order by 2 limit 3;
""",
    "words.pl": 'for my $i (1..6000) { push @{$h{"w".($i%900)}}, "x" x ($i%40); } $n += length join(",", @{$h{$_}}) for sort keys %h; print "$n\\n";',
    "words.rb": 'h=Hash.new{|a,b| a[b]=[]}; 4000.times{|i| h["w#{i%300}"] << "x"*(i%60)}; puts h.sort.map{|k,v| v.join(",").size}.sum',
    "trees.lua": "local function t(d) if d==0 then return {} end return {t(d-1),t(d-1)} end local n=0; for i=1,6 do n=n+#t(9) end print(n)",
    "words.php": '<?php $h=[]; for($i=0;$i<6000;$i++) $h["w".($i%400)][]=str_repeat("x",$i%50).$i; $n=0; foreach($h as $v) $n+=strlen(implode(",",$v)); echo $n;',
    "lists.tcl": "for {set i 0} {$i<6000} {incr i} {lappend l($i%300) [string repeat x [expr {$i%40}]]}; puts [llength [array names l]]",
}
PROGRAMS = {
    "python3 (PYTHONMALLOC=malloc)": "/usr/bin/python3 -S rows.py",
    "perl": "/usr/bin/perl words.pl",
    "ruby": "/usr/bin/ruby --disable=gems words.rb",
    "lua": "/usr/bin/lua5.4 trees.lua",
    "php (USE_ZEND_ALLOC=0)": "/usr/bin/php -n words.php",
    "jq": "/usr/bin/jq -c '[.rows[]|select(.v>100)]|group_by(.name)|map({n:.[0].name,c:length})' rows.json",
    "xmllint": "/usr/bin/xmllint --format rows.xml",
    "sqlite3": "/usr/bin/sqlite3 -init rows.sql :memory: .exit",
    "gawk": "/usr/bin/gawk '{n[$2]=n[$2]$1}END{for(k in n)l+=length(n[k]);print l}' lines.txt",
    "tclsh": "/usr/bin/tclsh lists.tcl",
}
CALLGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]


def environment(library: str, more: dict[str, str]) -> dict[str, str]:
    base = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/nowhere", "PYTHONMALLOC": "malloc", "USE_ZEND_ALLOC": "0", "HAKMEM_BACKGROUND": "0"}
    return base | more | ({"LD_PRELOAD": str(Path(library).resolve())} if library else {})


def instructions(command: list[str], variables: dict[str, str]) -> int | None:
    done = subprocess.run([*CALLGRIND, *command], env=variables, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found[1]) if found and done.returncode == 0 else None


def faults(command: list[str], variables: dict[str, str]) -> int:
    quiet = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_WRONLY, 0) for number in (1, 2)]
    _, status, usage = os.wait4(os.posix_spawn(command[0], command, variables, file_actions=quiet), 0)
    return usage.ru_minflt if status == 0 else 0


def mean(ratios: list[float | None]) -> str:
    known = [ratio for ratio in ratios if ratio]
    text = f"{math.exp(sum(map(math.log, known)) / len(known)):.2f}" if known else "-"
    return text if len(known) == len(ratios) else f"{text} (of {len(known)})"


def main(arguments: list[str]) -> int:
    if not arguments or any("=" not in one for one in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    allocators = {}
    for one in arguments:
        name, _, rest = one.partition("=")
        library, *settings = rest.split(",")
        allocators[name] = environment(library, dict(setting.split("=", 1) for setting in settings))
    counts: dict[str, list[float | None]] = {name: [] for name in allocators}
    pages: dict[str, list[float | None]] = {name: [] for name in allocators}
    print("| program | " + " | ".join(allocators) + " |\n" + "|---" * (len(allocators) + 1) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        os.chdir(folder)
        for program, line in PROGRAMS.items():
            command = shlex.split(line)
            if not Path(command[0]).exists():
                continue
            counted = {name: instructions(command, variables) for name, variables in allocators.items()}
            faulted = {name: faults(command, variables) for name, variables in allocators.items()}
            first, first_faults = next(iter(counted.values())), next(iter(faulted.values()))
            for name in allocators:
                count = counted[name]
                counts[name].append(count / first if count and first else None)
                pages[name].append(faulted[name] / first_faults if first_faults else None)
            cells = [f"{counts[name][-1]:.2f}" if counts[name][-1] else "-" for name in allocators]
            print(f"| {program} | " + " | ".join(cells) + " |", flush=True)
    print("| **geometric mean** | " + " | ".join(mean(counts[name]) for name in allocators) + " |")
    print("| page faults, geometric mean | " + " | ".join(mean(pages[name]) for name in allocators) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
