<?php
// USE_ZEND_ALLOC=0 in the environment sends every PHP object to malloc.
$seed = 5;
function draw(int $n): int {
    global $seed;
    $seed = ($seed * 1103515245 + 12345) & 0x7fffffff;
    return ($seed >> 8) % $n;
}
$rows = [];
for ($i = 0; $i < 30000; $i++) {
    $rows[] = ['id' => $i, 'name' => 'user' . draw(3000), 'tags' => array_fill(0, draw(5), 't' . draw(30))];
}
$json = json_encode($rows);
echo 'json ', strlen($json), ' ', hash('sha256', $json), ' ', json_decode($json, true) === $rows ? 'same' : 'DIFFERENT', "\n";
usort($rows, fn($a, $b) => [$a['name'], $a['id']] <=> [$b['name'], $b['id']]);
echo 'sort ', hash('sha256', implode(',', array_column($rows, 'id'))), "\n";
echo 'regex ', hash('sha256', preg_replace_callback('/user(\d+)/', fn($m) => strrev($m[1]), $json)), "\n";
echo 'serialize ', hash('sha256', serialize($rows)), "\n";
$text = '';
for ($i = 0; $i < 100000; $i++) {
    $text .= str_repeat(chr(65 + $i % 26), draw(40));
}
echo 'string ', strlen($text), ' ', md5($text), ' ', md5(gzuncompress(gzcompress($text))), "\n";
$queue = new SplQueue();
$total = 0;
for ($i = 0; $i < 150000; $i++) {
    $queue->enqueue(str_repeat('q', draw(900)));
    if (count($queue) > 300) {
        $total += strlen($queue->dequeue());
    }
}
echo "queue $total\n";
