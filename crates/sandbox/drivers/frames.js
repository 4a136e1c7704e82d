'use strict';
// Reads frames from the job channel while the event loop lives.

const net = require('net');

const reallyExit = process.reallyExit.bind(process);

// Calls `take` per frame. The end of the channel is the end of the process; so is a frame
// that is none, after `refuse`, for what follows it cannot be told apart.
function read(wire, take, refuse) {
  const socket = new net.Socket({ fd: wire.fd, readable: true, writable: false });
  const parts = { chunks: [], size: 0 };
  socket.on('data', (chunk) => {
    parts.chunks.push(chunk);
    parts.size += chunk.length;
    try {
      drain(wire, parts, take);
    } catch (error) {
      if (!(error instanceof wire.Refused)) throw error;
      refuse(error);
      reallyExit(2);
    }
  });
  socket.on('end', () => reallyExit(0));
  socket.on('error', () => reallyExit(0));
}

function drain(wire, parts, take) {
  while (parts.size >= 4) {
    const length = wire.length(head(parts, 4));
    if (parts.size < 4 + length) return;
    const data = head(parts, 4 + length);
    parts.chunks[0] = data.subarray(4 + length);
    parts.size -= 4 + length;
    take(wire.decode(data.subarray(4, 4 + length)));
  }
}

// The first bytes in one piece; joins chunks only when it must.
function head(parts, count) {
  if (parts.chunks.length > 0 && parts.chunks[0].length >= count) return parts.chunks[0];
  parts.chunks = [Buffer.concat(parts.chunks)];
  return parts.chunks[0];
}

module.exports = { read };
