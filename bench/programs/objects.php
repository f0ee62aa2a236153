<?php
// USE_ZEND_ALLOC=0 in the environment sends every PHP object to malloc.
$seed = 5;
function draw(int $n): int {
    global $seed;
    $seed = ($seed * 1103515245 + 12345) & 0x7fffffff;
    return ($seed >> 8) % $n;
}
for ($round = 0; $round < 4; $round++) {
    $rows = [];
    for ($i = 0; $i < 60000; $i++) {
        $rows[] = ['id' => $i, 'name' => 'user' . draw(3000), 'tags' => array_fill(0, draw(5), 't' . draw(30))];
    }
    $json = json_encode($rows);
    echo 'json ', strlen($json), ' ', hash('crc32b', $json), ' ', json_decode($json, true) === $rows ? 'same' : 'different', "\n";
    usort($rows, fn($a, $b) => [$a['name'], $a['id']] <=> [$b['name'], $b['id']]);
    echo 'sort ', hash('crc32b', implode(',', array_column($rows, 'id'))), "\n";
    echo 'regex ', hash('crc32b', preg_replace_callback('/user(\d+)/', fn($m) => strrev($m[1]), $json)), "\n";
    $queue = new SplQueue();
    $total = 0;
    for ($i = 0; $i < 300000; $i++) {
        $queue->enqueue(str_repeat('q', draw(900)));
        if (count($queue) > 300) {
            $total += strlen($queue->dequeue());
        }
    }
    echo "queue $total\n";
}
