// Objects, off-heap buffers, compression and worker threads.
const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

const digest = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

function blocks(seed) {
  const list = [];
  for (let i = 0; i < 1500; i++) list.push(Buffer.alloc((seed * 131 + i * 37) % 9000, i % 256));
  return digest(Buffer.concat(list));
}

if (!isMainThread) {
  parentPort.postMessage(blocks(workerData));
} else {
  const rows = [];
  for (let i = 0; i < 40000; i++) rows.push({ id: i, name: 'user' + ((i * 7919) % 5003), tags: ['a', i % 9] });
  const text = JSON.stringify(rows);
  console.log('json', text.length, digest(JSON.stringify(JSON.parse(text))));
  const packed = zlib.gzipSync(text);
  console.log('gzip', digest(zlib.gunzipSync(packed)), digest(zlib.brotliDecompressSync(zlib.brotliCompressSync(text.slice(0, 200000)))));
  console.log('map', digest([...new Map(rows.map((row) => [row.name, row.id]))].join()));
  console.log('blocks', blocks(1));
  let done = 0;
  const results = [];
  for (let n = 0; n < 4; n++) {
    new Worker(__filename, { workerData: n }).on('message', (result) => {
      results[n] = result;
      if (++done === 4) console.log('workers', results.join(' '));
    });
  }
}
