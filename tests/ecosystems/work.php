<?php
// php work.php       a job: the same output on every allocator
// php work.php MIB   holds strings until standard input ends
ini_set('memory_limit', -1);

function hold(int $mib): void {
    $kept = [];
    for ($i = 0; $i < $mib * 256; $i++) {
        $kept[] = str_repeat(chr(65 + $i % 26), 4000);
    }
    echo 'ready ', getmypid(), "\n";
    stream_get_contents(STDIN);
    exit(count($kept) === $mib * 256 ? 0 : 1);
}

// Rows as a web application has them: parsed, changed, written, thrown away.
function job(): void {
    $rows = [];
    for ($i = 0; $i < 4000; $i++) {
        $tags = ['t' . $i % 40, str_repeat('x', $i % 90)];
        $rows[] = ['id' => $i, 'name' => 'user' . $i * 7919 % 5003, 'tags' => $tags];
    }
    $text = json_encode($rows);
    $hash = hash_init('sha256');
    for ($n = 0; $n < 200; $n++) {
        $groups = [];
        foreach (json_decode($text, true) as $row) {
            $row['name'] .= "-$n-" . $row['tags'][1];
            $groups[$row['id'] % 97][] = strtoupper($row['name']);
        }
        foreach ($groups as $key => $names) {
            $line = "$key: " . implode(',', $names);
            hash_update($hash, preg_replace_callback('/USER(\d+)/', fn($found) => strrev($found[1]), $line));
        }
    }
    echo 'job ', hash_final($hash), "\n";
}

$argc > 1 ? hold((int) $argv[1]) : job();
