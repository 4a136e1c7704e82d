'use strict';
// Values as MIME bundles.
//
// An object may offer its own by `Symbol.for('Jupyter.display')` (a method returning a
// bundle) or `toHTML()`, `toSVG()`. What raises or is too large is left out; the plain
// text always remains, if only as a note.

const util = require('util');

const report = require('./report.js');

const PLAIN_LIMIT = 64 * 1024;
const RICH_LIMIT = 8 * 1024 * 1024;
const OFFER = Symbol.for('Jupyter.display');
const TEXT = ['text/plain', 'text/html', 'text/markdown', 'text/latex', 'image/svg+xml', 'application/javascript'];
const BINARY = ['image/png', 'image/jpeg', 'application/pdf'];
const { inspect } = util;
const { stringify, parse } = JSON;

function plain(value, limit = PLAIN_LIMIT) {
  const shown = { depth: 4, maxArrayLength: 1000, maxStringLength: limit, breakLength: 80 };
  return report.shorten(report.textOf(() => inspect(value, shown), '<inspect() failed>'), limit);
}

function bundle(value) {
  const data = { 'text/plain': plain(value) };
  if (value !== null && typeof value === 'object') {
    add(data, { 'text/html': ask(value, 'toHTML'), 'image/svg+xml': ask(value, 'toSVG') });
    add(data, ask(value, OFFER));
  }
  return data;
}

function ask(value, method) {
  try {
    return typeof value[method] === 'function' ? value[method]() : undefined;
  } catch {
    return undefined;
  }
}

function add(data, offered) {
  for (const kind of [...TEXT, ...BINARY, 'application/json']) {
    try {
      const content = typed(kind, offered?.[kind]);
      if (content !== undefined && stringify(content).length <= RICH_LIMIT) data[kind] = content;
    } catch {
      continue; // A getter that raises, JSON that contains itself.
    }
  }
}

function typed(kind, content) {
  if (content === undefined || content === null) return undefined;
  if (kind === 'application/json') return parse(stringify(content));
  if (BINARY.includes(kind) && ArrayBuffer.isView(content)) {
    return Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString('base64');
  }
  return typeof content === 'string' ? content : undefined;
}

// The `display` of user code, over a function that takes a bundle.
function displayer(emit) {
  const one = (kind, note) => (content) => {
    const data = { 'text/plain': note };
    add(data, { [kind]: content });
    emit(data);
  };
  const display = (...values) => values.forEach((value) => emit(bundle(value)));
  return Object.assign(display, {
    html: one('text/html', '<html>'),
    svg: one('image/svg+xml', '<svg>'),
    png: one('image/png', '<png>'),
    jpeg: one('image/jpeg', '<jpeg>'),
    markdown: one('text/markdown', '<markdown>'),
    latex: one('text/latex', '<latex>'),
    json: (value) => {
      const data = { 'text/plain': plain(value) };
      add(data, { 'application/json': value });
      emit(data);
    },
  });
}

module.exports = { bundle, plain, displayer };
