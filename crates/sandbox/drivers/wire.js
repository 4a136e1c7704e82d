'use strict';
// Frames on the job channel: u32 little-endian length, then one UTF-8 JSON object.
//
// Node closes inherited descriptors on exec by itself, so children of user code never
// hold the channel. Reads and writes are synchronous: a frame is written whole before
// anything else happens, and the last one survives the end of the process.

const fs = require('fs');

const MAX_FRAME = 64 * 1024 * 1024;
const LOST = 70; // EX_SOFTWARE: the channel is gone, so nothing can be reported.

// Bound once: user code may replace functions of these modules.
const { readSync, writeSync, fstatSync } = fs;
const { stringify, parse } = JSON;
const { wait } = Atomics;
const reallyExit = process.reallyExit.bind(process);
const pause = new Int32Array(new SharedArrayBuffer(4));

const fd = Number(process.env.RINGFENCE_JOB_FD || 4);
const identity = look();

class Refused extends Error {}

function look() {
  try {
    const found = fstatSync(fd);
    return `${found.dev}:${found.ino}`;
  } catch {
    return null;
  }
}

// Repeats a call while the descriptor is busy: it may be in non-blocking mode.
function patiently(call) {
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (error.code === 'EAGAIN') wait(pause, 0, 0, 1);
      else if (error.code !== 'EINTR') throw error;
    }
  }
}

// Writes all of `data`; throws what the last attempt threw.
function writeAll(target, data) {
  let at = 0;
  while (at < data.length) at += patiently(() => writeSync(target, data, at, data.length - at));
}

// `JSON.stringify` escapes lone surrogates and nothing else that begins with `\\ud`; strict
// readers refuse the escape. Escaped backslashes are matched first, hence skipped.
const LONE = /\\\\|\\ud[89a-f][0-9a-f]{2}/g;

function encode(frame) {
  const text = stringify(frame).replace(LONE, (found) => (found === '\\\\' ? found : '?'));
  const body = Buffer.from(text);
  if (body.length > MAX_FRAME) throw new Refused(`frame of ${body.length} bytes, the limit is ${MAX_FRAME}`);
  const data = Buffer.allocUnsafe(4 + body.length);
  data.writeUInt32LE(body.length, 0);
  body.copy(data, 4);
  return data;
}

// The frame being written. An interrupt can end a send at any call or loop, so what is
// left of a frame is completed before the next one begins.
let unsent = { data: Buffer.alloc(0), at: 0 };

function send(frame) {
  const data = encode(frame);
  flush();
  unsent = { data, at: 0 };
  flush();
}

function flush() {
  if (look() !== identity) reallyExit(LOST); // User code put another file in its place.
  try {
    while (unsent.at < unsent.data.length) {
      patiently(() => {
        unsent.at += writeSync(fd, unsent.data, unsent.at);
      });
    }
  } catch {
    reallyExit(LOST);
  }
}

function exactly(count) {
  const data = Buffer.allocUnsafe(count);
  let at = 0;
  while (at < count) {
    const got = patiently(() => readSync(fd, data, at, count - at, null));
    if (got === 0) return null;
    at += got;
  }
  return data;
}

function length(header) {
  const count = header.readUInt32LE(0);
  if (count > MAX_FRAME) throw new Refused(`frame of ${count} bytes, the limit is ${MAX_FRAME}`);
  return count;
}

function decode(body) {
  let frame;
  try {
    frame = parse(body.toString('utf8'));
  } catch (error) {
    throw new Refused(`frame is not JSON: ${error.message}`);
  }
  if (frame === null || typeof frame !== 'object' || Array.isArray(frame)) {
    throw new Refused('frame is not a JSON object');
  }
  return frame;
}

// Blocks for the next frame; null at the end of the channel.
function receive() {
  const header = exactly(4);
  const body = header && exactly(length(header));
  return body && decode(body);
}

// Blocks until the other side lets go; nothing that comes is read any more.
function linger() {
  try {
    while (exactly(1) !== null);
  } catch {
    reallyExit(LOST);
  }
}

module.exports = { fd, send, receive, linger, encode, decode, length, writeAll, Refused };
