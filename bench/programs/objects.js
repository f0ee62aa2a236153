// Objects on node's own heap, and buffers, strings and compression outside of it.
const crypto = require('crypto');
const zlib = require('zlib');

const digest = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

const rows = [];
for (let i = 0; i < 100000; i++) rows.push({ id: i, name: 'user' + ((i * 7919) % 5003), tags: ['a', i % 9] });
const text = JSON.stringify(rows);
console.log('json', text.length, digest(JSON.stringify(JSON.parse(text))));
let bytes = 0;
for (let i = 0; i < 24000; i++) {
  const part = text.slice(i * 40, i * 40 + 3000);
  bytes += zlib.inflateSync(zlib.deflateSync(part, { level: 1 })).length;
}
console.log('zlib', bytes);
let live = new Array(2000).fill(Buffer.alloc(0));
let total = 0;
for (let i = 0; i < 500000; i++) {
  const at = (i * 7919) % 2000;
  total += live[at].length;
  live[at] = Buffer.allocUnsafeSlow(100 + ((i * 37) % 9000)).fill(i % 256, 0, 64);
}
console.log('buffers', total);
