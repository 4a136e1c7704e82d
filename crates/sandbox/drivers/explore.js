'use strict';
// What a session's context holds: variables, completions, and how to forget them.

const display = require('./display.js');
const engine = require('./engine.js');

const VARIABLES_LIMIT = 1000;
const MATCHES_LIMIT = 500;
const REPR_LIMIT = 200;
const KEYWORDS = 'async await break case catch class const continue delete do else export extends finally for function if import in instanceof let new return static switch throw try typeof var void while yield'.split(' ');

let given = new Set();
let forgotten = new Set();

// Remembers what is there before the first cell.
function begin() {
  given = new Set([...Object.getOwnPropertyNames(globalThis), ...engine.lexicalNames()]);
}

function names() {
  const all = [...Object.getOwnPropertyNames(globalThis), ...engine.lexicalNames()];
  return [...new Set(all)].filter((name) => !given.has(name)).sort();
}

function variables() {
  return names().map((name) => [name, engine.peek(name)])
    .filter(([name, value]) => !(forgotten.has(name) && value === undefined))
    .slice(0, VARIABLES_LIMIT)
    .map(([name, value]) => ({ name, type: typeOf(value), repr: display.plain(value, REPR_LIMIT) }));
}

function typeOf(value) {
  if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value;
  const made = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof made === 'string' && made !== '' ? made : 'object';
}

function complete(code, cursor) {
  const text = /[\w$.]*$/.exec(code.slice(0, cursor))[0];
  const dot = text.lastIndexOf('.');
  const owner = text.slice(0, Math.max(dot, 0));
  const prefix = text.slice(dot + 1);
  const found = dot < 0 ? [...names(), ...Object.getOwnPropertyNames(globalThis), ...KEYWORDS] : attributes(owner);
  const matches = [...new Set(found)].filter((name) => name.startsWith(prefix) && /^[\w$]+$/.test(name)).sort();
  const before = dot < 0 ? '' : `${owner}.`;
  return { matches: matches.slice(0, MATCHES_LIMIT).map((name) => before + name), cursor_start: cursor - text.length, cursor_end: cursor };
}

// Own and inherited property names, those of `Object.prototype` left out.
function attributes(owner) {
  let value = /^[A-Za-z_$][\w$]*(?:\.[\w$]+)*$/.test(owner) ? engine.peek(owner) : undefined;
  const found = [];
  if (value === undefined || value === null) return found;
  for (value = Object(value); value && value !== Object.prototype; value = Object.getPrototypeOf(value)) {
    found.push(...Object.getOwnPropertyNames(value));
  }
  return found.filter((name) => !/^\d/.test(name));
}

// Forgets every variable. What a script declared cannot be removed from a context (a
// `var` is not configurable, a `let` is no property), hence becomes undefined.
function reset() {
  forgotten = new Set(names());
  engine.forget(engine.lexicalNames().filter((name) => !given.has(name)));
  for (const name of forgotten) {
    if (!Reflect.deleteProperty(globalThis, name)) Reflect.set(globalThis, name, undefined);
  }
}

module.exports = { begin, variables, complete, reset };
