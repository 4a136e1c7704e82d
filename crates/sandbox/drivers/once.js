'use strict';
// One job, then the end: `run` a script or `call` a skill.
//
// User code is entered from node's own task queue, so that no frame of ours is on its
// stack, not even in an `Error` that it catches itself.

const vm = require('vm');

const ending = require('./ending.js');
const loader = require('./loader.js');
const report = require('./report.js');
const skill = require('./skill.js');
const stage = require('./stage.js');
const streams = require('./streams.js');
const wire = require('./wire.js');

function serve() {
  warmUp();
  wire.send({ ev: 'ready' });
  let job;
  try {
    job = wire.receive();
    if (job === null) process.reallyExit(0);
    begin(job);
  } catch (error) {
    ending.leave(2, report.describe(error));
  }
}

function begin(job) {
  if (job.op !== 'run' && job.op !== 'call') throw new stage.BadJob('`op` must be `run` or `call`');
  stage.check(job);
  const filename = stage.enter(job, job.filename || (job.op === 'run' ? 'main.js' : 'handler.js'));
  ending.watch();
  if (job.op === 'run') run(job, filename);
  else skill.call(job, filename);
}

function run(job, filename) {
  if (!loader.isEs(job.code, filename)) {
    const main = loader.mainModule(filename, job.code);
    process.nextTick(main._compile.bind(main, job.code, filename));
    return;
  }
  loader.importSource(filename, job.code).catch((error) => {
    process.nextTick(() => {
      throw error;
    });
  });
}

// Pays first-use costs before a job arrives.
function warmUp() {
  new vm.Script('(function () { return [1, 2].map((x) => `${x}`); })()').runInThisContext();
  loader.isEs('import a from "a"', 'warm-up.js');
  report.uncaught(new Error('warm-up'), () => '');
  wire.decode(wire.encode({ ev: 'warm-up', rusage: ending.rusage() }).subarray(4));
  streams.makeBlocking();
}

module.exports = { serve };
