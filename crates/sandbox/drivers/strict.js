'use strict';
// Strict JSON of a return value: what cannot be told exactly is an error with a path.

class NotJson extends TypeError {}
NotJson.prototype.name = 'NotJson';

const { stringify } = JSON;

// JSON text of `value`. Properties that are undefined are absent, as everywhere in JavaScript.
function toJson(value) {
  if (value === undefined) return 'null';
  const paths = new Map();
  const text = stringify(value, function (key, item) {
    const path = pathOf(paths, this, key);
    refuse(this, item, path);
    if (item !== null && typeof item === 'object') remember(paths, this, item, path);
    return item;
  });
  return text;
}

function pathOf(paths, holder, key) {
  const above = paths.get(holder);
  if (above === undefined) return 'result';
  return Array.isArray(holder) ? `${above}[${key}]` : `${above}[${stringify(key)}]`;
}

function remember(paths, holder, item, path) {
  if (paths.size > 100000) paths.clear(); // Paths are for messages; memory is not.
  paths.set(item, path);
}

const LONE = /\p{Surrogate}/u; // With the flag, pairs are one character and do not match.

function refuse(holder, item, path) {
  const kind = typeof item;
  if (kind === 'string' && LONE.test(item)) throw new NotJson(`${path} is a string with a lone surrogate, which is not JSON`);
  if (kind === 'function' || kind === 'symbol' || kind === 'bigint') throw new NotJson(`${path} is of type \`${kind}\`, which is not JSON`);
  if (kind === 'undefined' && Array.isArray(holder)) throw new NotJson(`${path} is \`undefined\`, which is not JSON`);
  if (kind === 'number' && !Number.isFinite(item)) throw new NotJson(`${path} is the number ${item}, which is not JSON`);
  if (isOpaque(item)) throw new NotJson(`${path} is of type \`${item.constructor.name}\`, which is not JSON`);
}

// Objects that would silently become `{}`.
function isOpaque(item) {
  return item instanceof Map || item instanceof Set || item instanceof WeakMap || item instanceof Promise;
}

module.exports = { toJson, NotJson };
