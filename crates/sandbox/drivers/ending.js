'use strict';
// The end of a job: user `exit` listeners, the uncaught exception, the final frame, exit.
//
// Node has no event after its `exit` event, and prints an uncaught exception only after
// it. So we print it ourselves and end the process at once: what the final frame says is
// true when it is sent, and node's teardown is off the path.

const report = require('./report.js');
const wire = require('./wire.js');

const reallyExit = process.reallyExit.bind(process);
const usage = process.resourceUsage.bind(process);
const UNSETTLED = 13; // What node exits with when a top-level await never settles.

const state = { fatal: null, told: null, sources: new Map(), settled: true, rename: (text) => text };

// Watches for the end of the process from now on.
function watch() {
  process.on('uncaughtExceptionMonitor', (error) => {
    const isHandled = process.listenerCount('uncaughtException') > 0 || process.hasUncaughtExceptionCaptureCallback();
    state.fatal = isHandled ? null : { error };
  });
  const emit = process.emit;
  process.emit = function (event, ...values) {
    if (event !== 'exit' || this !== process) return Reflect.apply(emit, this, [event, ...values]);
    try {
      Reflect.apply(emit, this, [event, ...values]);
    } catch (error) {
      state.fatal = { error };
      process.exitCode = 1;
    }
    finish(values[0]);
  };
}

function finish(code) {
  if (!state.settled && process.exitCode === undefined && !state.fatal) process.exitCode = UNSETTLED;
  let status = Number(process.exitCode ?? code ?? 0) & 255;
  if (state.fatal) {
    status = status || 1;
    report.print(state.rename(report.uncaught(state.fatal.error, source)));
  }
  leave(status, state.fatal ? tell(state.fatal.error) : null);
}

function tell(error) {
  return state.told ? state.told(error) : report.describe(error);
}

// Sends the final frame, and ends the process when the channel is closed: its teardown would
// take a processor from the reader of the frame.
function leave(status, error) {
  wire.send({ ev: 'done', exit: status, error, rusage: rusage() });
  wire.linger();
  reallyExit(status);
}

function rusage() {
  const used = usage();
  return { utime: used.userCPUTime / 1e6, stime: used.systemCPUTime / 1e6, maxrss: used.maxRSS * 1024 };
}

function source(file) {
  return state.sources.get(file) ?? report.readSource(file);
}

module.exports = { state, watch, leave, rusage };
