'use strict';
// Exceptions of user code, told as node itself would tell them, without our frames.

const fs = require('fs');
const util = require('util');

const here = __dirname + '/';
const MESSAGE_LIMIT = 16 * 1024;
const { readFileSync } = fs;
const { inspect } = util;

function shorten(text, limit) {
  return text.length <= limit ? text : `${text.slice(0, limit)}... [${text.length - limit} characters truncated]`;
}

function isError(value) {
  return value instanceof Error || util.types.isNativeError(value);
}

function textOf(make, fallback) {
  try {
    const text = make();
    return typeof text === 'string' ? text : fallback;
  } catch {
    return fallback;
  }
}

function nameOf(value) {
  if (!isError(value)) return value === null ? 'null' : typeof value;
  return textOf(() => value.name, 'Error') || 'Error';
}

function messageOf(value) {
  const make = isError(value) ? () => String(value.message) : () => inspect(value);
  return shorten(textOf(make, '<message failed>'), MESSAGE_LIMIT);
}

// The `error` object of a final frame.
function describe(value) {
  const number = isError(value) ? textOf(() => String(value.errno), '') : '';
  return { type: nameOf(value), errno: /^-?\d+$/.test(number) ? Math.abs(Number(number)) : null, message: messageOf(value) };
}

// Cuts each run of stack lines at the first frame that is ours or only carries us.
function withoutOurs(text, isOurs = (line) => line.includes(here)) {
  const kept = [];
  let cutting = false;
  for (const line of text.split('\n')) {
    const isFrame = /^\s+at /.test(line);
    cutting = isFrame && (cutting || isOurs(line));
    if (!cutting) kept.push(line);
    else if (/ \{$/.test(line)) kept[kept.length - 1] += ' {'; // Properties of the error follow.
  }
  return kept.join('\n');
}

// What node prints for an uncaught exception. `source(file)` gives a file's text.
function uncaught(value, source) {
  const version = `\n\nNode.js ${process.version}\n`;
  if (!isError(value)) {
    return `Uncaught:\n${textOf(() => inspect(value), '<inspect failed>')}\n(Use \`node --trace-uncaught ...\` to show where the exception was thrown)${version}`;
  }
  const stack = textOf(() => inspect(value), textOf(() => String(value.stack), nameOf(value)));
  return arrow(stack, source) + withoutOurs(stack) + version;
}

// The source line and caret that node shows above a stack.
function arrow(stack, source) {
  const found = /^\s+at (?:.*\()?(?:file:\/\/)?(\/.*?):(\d+):(\d+)\)?( \{)?$/m.exec(stack);
  if (!found || found.index > 0 && stack.slice(0, found.index).includes('\n    at ')) return '';
  const [, file, line, column] = found;
  const text = textOf(() => source(file).split(/\r?\n/)[line - 1], null);
  if (text === null || text === undefined || stack.startsWith(file) || file.startsWith(here)) return '';
  return `${file}:${line}\n${text}\n${' '.repeat(caret(text, Number(column)))}^\n\n`;
}

// Node points at the `throw`, a stack points at the `new` behind it.
function caret(text, column) {
  const thrown = /throw\s+$/.exec(text.slice(0, column - 1));
  return thrown ? thrown.index : column - 1;
}

function readSource(file) {
  return readFileSync(file, 'utf8');
}

// Writes the whole text to descriptor 2; a closed one is no error.
function print(text) {
  try {
    require('./wire.js').writeAll(2, Buffer.from(text));
  } catch {
    // Closed by user code or by the reader.
  }
}

module.exports = { describe, nameOf, messageOf, isError, shorten, textOf, withoutOurs, uncaught, readSource, print };
