// Prints many small records as JSON lines, {"key": …, "body": …}, always the same for the same arguments.
// usage: node many.mjs KEYS UPDATES SIZE
// First KEYS records with keys of their own, in the order of their keys, of about SIZE bytes of skewed random words,
// hardly similar to each other. Then UPDATES records, each of which changes three words of a random one of them.
import { writeSync } from "node:fs";

const [keys, updates, size] = process.argv.slice(2).map(Number);

// xorshift: numbers from 0 to below 1.
let state = 0x9e3779b9;
function random() {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) / 2 ** 32;
}

const letter = () => "abcdefghijklmnopqrstuvwxyz"[Math.floor(random() * 26)];
const words = Array.from({ length: 5000 }, () => Array.from({ length: 2 + Math.floor(random() * 9) }, letter).join(""));
function word() {
  const skewed = random();
  return Math.floor(skewed * skewed * words.length);
}

const perRecord = Math.max(3, Math.round(size / 7));
const bodies = new Uint16Array(perRecord * (updates > 0 ? keys : 1));
let lines = [];
function print(key, at) {
  let body = words[bodies[at]];
  for (let i = 1; i < perRecord; i++) body += " " + words[bodies[at + i]];
  lines.push(`{"key":"k${String(key).padStart(9, "0")}","body":"${body}"}\n`);
  if (lines.length === 4096) flush();
}
function flush() {
  let bytes = Buffer.from(lines.join(""));
  while (bytes.length > 0) bytes = bytes.subarray(writeSync(1, bytes));
  lines = [];
}

for (let key = 0; key < keys; key++) {
  const at = updates > 0 ? key * perRecord : 0;
  for (let i = 0; i < perRecord; i++) bodies[at + i] = word();
  print(key, at);
}
for (let update = 0; update < updates; update++) {
  const key = Math.floor(random() * keys);
  for (let i = 0; i < 3; i++) bodies[key * perRecord + Math.floor(random() * perRecord)] = word();
  print(key, key * perRecord);
}
flush();
