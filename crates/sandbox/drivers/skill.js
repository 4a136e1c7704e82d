'use strict';
// A skill call: a module, one function of it, one object of arguments, one JSON result.
//
// The result travels on its own channel, so nothing that user code prints can be taken
// for it. When the function has answered, the call is over: timers it left behind do not
// keep it alive.

const fs = require('fs');

const ending = require('./ending.js');
const loader = require('./loader.js');
const report = require('./report.js');
const stage = require('./stage.js');
const strict = require('./strict.js');
const wire = require('./wire.js');

const ENTRY_POINTS = ['handler', 'execute', 'run', 'main'];
const { closeSync, fstatSync } = fs;
const exit = process.exit.bind(process);

class NoEntryPoint extends Error {}
NoEntryPoint.prototype.name = 'NoEntryPoint';
class NoResultChannel extends Error {}
NoResultChannel.prototype.name = 'NoResultChannel';
class Unsettled extends Error {}
Unsettled.prototype.name = 'Unsettled';

function call(job, filename) {
  ending.state.told = describe;
  let isOver = false;
  process.once('beforeExit', () => {
    if (!isOver) fail(new Unsettled('the function never settled: nothing is left that could settle it'));
  });
  answer(job, filename).then(
    (value) => {
      isOver = true;
      finish(value);
    },
    (error) => {
      isOver = true;
      fail(error);
    },
  );
}

async function answer(job, filename) {
  const exported = await load(job.code, filename);
  const [owner, entry] = entryPoint(exported, job.function);
  return Reflect.apply(entry, owner, [job.args || {}]);
}

async function load(code, filename) {
  if (loader.isEs(code, filename)) return loader.importSource(filename, code);
  const main = loader.mainModule(filename, code);
  main._compile(code, filename);
  return main.exports;
}

function entryPoint(exported, wanted) {
  const fallback = exported?.default;
  for (const name of wanted ? [wanted] : ENTRY_POINTS) {
    for (const owner of [exported, fallback]) {
      if (typeof owner?.[name] === 'function') return [owner, owner[name]];
    }
  }
  if (!wanted && typeof exported === 'function') return [undefined, exported];
  if (!wanted && typeof fallback === 'function') return [undefined, fallback];
  const names = wanted ? `no function \`${wanted}\`` : `none of the functions ${ENTRY_POINTS.map((name) => `\`${name}\``).join(', ')}`;
  throw new NoEntryPoint(`the skill exports ${names}`);
}

function finish(value) {
  try {
    deliver(Buffer.from(strict.toJson(value)));
  } catch (error) {
    fail(error);
    return;
  }
  exit();
}

// Writes the whole result and closes the channel, so that its reader sees the end.
function deliver(data) {
  const channel = resultChannel();
  try {
    wire.writeAll(channel, data);
  } catch (error) {
    if (error.code !== 'EPIPE') throw error; // The reader has had enough.
  }
  closeSync(channel);
}

function resultChannel() {
  const number = Number(process.env[stage.KEPT] || NaN);
  try {
    fstatSync(number);
    return number;
  } catch {
    throw new NoResultChannel('this call has no result channel');
  }
}

function fail(error) {
  ending.state.fatal = { error };
  process.exitCode = 1;
  exit();
}

function describe(error) {
  const stack = report.isError(error) ? report.textOf(() => error.stack, '') : '';
  return { ...report.describe(error), traceback: report.shorten(report.withoutOurs(stack), 64 * 1024) };
}

module.exports = { call };
