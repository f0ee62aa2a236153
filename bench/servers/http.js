// node http.js PORT: answers with JSON of some dozen objects, compressed by zlib's threads, in buffers outside of
// V8's heap; the last 64 buffers of different sizes are kept.
'use strict';
const http = require('http');
const zlib = require('zlib');

const kept = new Array(64).fill(null);
let number = 0;

http
  .createServer((request, response) => {
    number++;
    const rows = [];
    for (let i = 0; i < 40; i++) rows.push({ number, name: `row ${i}`, size: (number * 31 + i) % 997, url: request.url });
    const body = Buffer.alloc(8192 + (number % 16) * 8192, JSON.stringify(rows));
    kept[number % kept.length] = body;
    zlib.gzip(body, { level: 1 }, (error, packed) => {
      response.writeHead(error ? 500 : 200, { 'Content-Encoding': 'gzip', 'Content-Length': error ? 0 : packed.length });
      response.end(error ? '' : packed);
    });
  })
  .listen(Number(process.argv[2]), '127.0.0.1');
