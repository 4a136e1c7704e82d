'use strict';

// What a program asks the machine for, answered with the sandbox's own limits.
//
// Node reads the number of processors and the memory from files of /proc that are not there in a
// sandbox, and takes an empty list and the host's memory instead. Libraries size their worker pools
// and caches by these, so they get what the sandbox really has.

const os = require('os');

const memory = Number(process.env.RINGFENCE_MEMORY_BYTES);

if (os.cpus().length === 0) {
  os.cpus = () => Array.from({ length: processors() }, () => ({
    model: 'sandbox',
    speed: 0,
    times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 },
  }));
}

if (memory > 0) {
  os.totalmem = () => memory;
  os.freemem = () => Math.max(0, memory - process.memoryUsage.rss());
}

function processors() {
  return os.availableParallelism ? os.availableParallelism() : 1;
}
