// node work.js                       a job: the same output on every allocator
// node work.js buffers|objects MIB   holds memory of one kind until standard input ends
const crypto = require('crypto');
const zlib = require('zlib');

function hold(kind, mib) {
  const kept = [];
  for (let i = 0; i < mib * 16; i++) {
    kept.push(kind === 'buffers' ? Buffer.alloc(65536, 1) : new Array(8192).fill(i + 0.5));
  }
  console.log('ready', process.pid);
  process.stdin.on('end', () => process.exit(kept.length === mib * 16 ? 0 : 1)).resume();
}

// Buffers of 1 to 64 KiB that replace each other, some packed and unpacked, beside objects and JSON.
function job() {
  const kept = new Array(1000).fill(null);
  const hash = crypto.createHash('sha256');
  let seed = 7;
  for (let i = 0; i < 150000; i++) {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    const size = 1024 + ((seed >> 8) % 64512);
    const buffer = Buffer.allocUnsafeSlow(size);
    buffer.fill(i & 255, 0, 1024);
    kept[(seed >> 4) % kept.length] = buffer;
    if (i % 100 === 0) {
      const rows = Array.from({ length: 200 }, (_, n) => ({ id: i + n, name: 'user' + ((seed + n) % 5003) }));
      const text = JSON.stringify(rows);
      hash.update(zlib.gunzipSync(zlib.gzipSync(text))).update(buffer.subarray(0, 1024));
    }
  }
  console.log('job', hash.digest('hex'));
}

if (process.argv.length > 3) hold(process.argv[2], Number(process.argv[3]));
else job();
