'use strict';
// Makes stdout and stderr blocking.
//
// On pipes node writes what fits and queues the rest; `process.exit()` and an uncaught
// exception then lose the queue (65536 bytes of three million came through). Blocking
// writes lose nothing, and keep output in order with the frames that follow it.

function makeBlocking() {
  for (const stream of [process.stdout, process.stderr]) {
    stream._handle?.setBlocking?.(true); // Files have no handle and block anyway.
  }
}

module.exports = { makeBlocking };
