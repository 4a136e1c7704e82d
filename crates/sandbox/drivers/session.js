'use strict';
// A stateful context: cells in, ordered events out, until the channel closes.
//
// Output is not an event: descriptors 1 and 2 stay the pipes they are, which are made
// blocking, so that the order of output and events is true.
//
// Invariants: every `execute` ends in exactly one `done`; one cell runs at a time;
// whatever a cell or a timer it left behind throws, the session goes on.

const { createRequire } = require('module');

const display = require('./display.js');
const engine = require('./engine.js');
const explore = require('./explore.js');
const frames = require('./frames.js');
const imports = require('./imports.js');
const report = require('./report.js');
const streams = require('./streams.js');
const wire = require('./wire.js');

const TRACEBACK_LIMIT = 64 * 1024;
const operations = { execute, variables, complete, reset, interrupt };
const state = { count: 0, current: null, queue: [] };

class ProcessExit extends Error {
  constructor(code) {
    super(`process.exit(${code ?? ''}) ends no session`);
  }
}
ProcessExit.prototype.name = 'ProcessExit';

function serve() {
  streams.makeBlocking();
  furnish();
  engine.evaluate('1', 'warm-up', () => {}, () => {
    explore.begin();
    wire.send({ ev: 'ready' });
    frames.read(wire, take, (error) => wire.send({ ev: 'refused', id: null, message: error.message }));
  });
}

// The globals of cells, and the handlers that keep the session alive.
function furnish() {
  const module = { exports: {} };
  const require = createRequire(process.cwd() + '/');
  Object.assign(globalThis, { require, module, exports: module.exports, __dirname: process.cwd() });
  globalThis.display = display.displayer((data) => tell({ ev: 'result', main: false, data }));
  imports.install();
  process.argv = [process.execPath];
  process.exit = (code) => {
    throw new ProcessExit(code);
  };
  process.on('SIGINT', () => state.current?.interrupt());
  process.on('uncaughtException', (error) => report.print(`${stackOf(error)}\n`));
}

function take(job) {
  if (job.op === 'interrupt') interrupt(job);
  else state.queue.push(job);
  if (state.current === null) next();
}

function next() {
  while (state.current === null && state.queue.length > 0) handle(state.queue.shift());
}

function handle(job) {
  const operation = typeof job.op === 'string' && Object.hasOwn(operations, job.op) ? operations[job.op] : null;
  if (operation === null) refuse(job, `\`op\` must be one of ${Object.keys(operations).map((name) => `\`${name}\``).join(', ')}`);
  else if (job.op === 'execute' && typeof job.code !== 'string') refuse(job, '`code` must be a string');
  else attempt(operation, job);
}

// Looking at variables can run their code, which may throw.
function attempt(operation, job) {
  try {
    operation(job);
  } catch (error) {
    refuse(job, `${report.nameOf(error)}: ${report.messageOf(error)}`);
  }
}

function refuse(job, message) {
  wire.send({ ev: 'refused', id: job.id ?? null, message });
}

function execute(job) {
  if (typeof job.call === 'string') process.env.RINGFENCE_CALL_ID = job.call;
  state.count += 1;
  const cell = { id: job.id ?? null, name: `<cell-${state.count}>`, code: job.code };
  cell.finish = (outcome) => {
    if (state.current !== cell) return; // Interrupted before; this is its late end.
    close(cell, outcome);
  };
  cell.interrupt = () => cell.finish({ isInterrupted: true });
  cell.begin = () => {
    if (!cell.isBegun) tell({ ev: 'started' });
    cell.isBegun = true;
  };
  state.current = cell;
  engine.evaluate(imports.rewrite(job.code), cell.name, cell.begin, cell.finish);
}

function close(cell, outcome) {
  let status = 'ok';
  cell.begin(); // Interrupted even before that.
  if (outcome.isInterrupted) {
    status = 'interrupted';
    tell({ ev: 'error', name: 'Interrupted', value: 'interrupted by SIGINT', traceback: [] });
  } else if (outcome.isError || outcome.error) {
    status = 'error';
    tell({ ev: 'error', name: report.nameOf(outcome.error), value: report.messageOf(outcome.error), traceback: traceback(cell, outcome) });
  } else if (outcome.value !== undefined) {
    tell({ ev: 'result', main: true, data: display.bundle(outcome.value) });
  }
  tell({ ev: 'done', status, execution_count: state.count });
  state.current = null;
  setImmediate(next);
}

// One event of the current cell; between cells it is dropped.
function tell(frame) {
  if (state.current !== null) wire.send({ ...frame, id: state.current.id });
}

function traceback(cell, outcome) {
  const where = outcome.error instanceof SyntaxError && !/<cell-\d+>/.test(stackOf(outcome.error)) ? pointed(cell, outcome) : [];
  return report.shorten([...where, stackOf(outcome.error)].join('\n'), TRACEBACK_LIMIT).split('\n');
}

// Line and caret of a syntax error, which has no stack of its own.
function pointed(cell, { line, column }) {
  const text = cell.code.split('\n')[line];
  return text === undefined ? [] : [`${friendly(cell.name)}:${line + 1}`, text, `${' '.repeat(column)}^`, ''];
}

function stackOf(error) {
  const text = report.isError(error) ? report.textOf(() => error.stack, '') : `Uncaught ${display.plain(error)}`;
  return friendly(report.withoutOurs(text, (line) => /node:inspector|node:vm/.test(line) || line.includes(__dirname + '/')));
}

function friendly(text) {
  return text.replace(/<cell-(\d+)>/g, '<cell $1>');
}

// Stops a cell that waits. Node can lose a SIGINT just after the synchronous part of a
// cell, so a sure interrupt is this first and, if no `done` follows, the signal.
function interrupt(job) {
  if (state.current !== null && state.current.id === (job.id ?? null)) state.current.interrupt();
}

function variables(job) {
  wire.send({ ev: 'variables', id: job.id ?? null, variables: explore.variables() });
}

function complete(job) {
  const code = typeof job.code === 'string' ? job.code : '';
  const cursor = Number.isInteger(job.cursor) ? Math.min(Math.max(job.cursor, 0), code.length) : code.length;
  wire.send({ ev: 'completions', id: job.id ?? null, ...explore.complete(code, cursor) });
}

function reset(job) {
  explore.reset();
  state.count = 0;
  wire.send({ ev: 'reset', id: job.id ?? null });
}

module.exports = { serve };
