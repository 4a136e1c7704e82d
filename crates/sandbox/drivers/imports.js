'use strict';
// Lets cells use `import`, which scripts have not: both forms become calls of one
// function that resolves from the working directory.

const path = require('path');
const { createRequire, builtinModules } = require('module');
const { pathToFileURL } = require('url');

const CALL = 'globalThis[Symbol.for("ringfence.import")]';

// Strings, templates and comments are matched first, hence skipped.
const SKIP = /"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|`(?:\\[\s\S]|[^`\\])*`|\/\/[^\n]*|\/\*[\s\S]*?\*\//.source;
const STATIC = /(?<=^|[\n;])[ \t]*import\s*(?:([\w$*{}\s,]+?)\s*from\s*)?("[^"\n]*"|'[^'\n]*')[ \t]*;?/.source;
const DYNAMIC = /(?<![.\w$])import(?=\s*\()/.source;
const TOKEN = new RegExp(`(${STATIC})|(${DYNAMIC})|${SKIP}`, 'g');

function rewrite(code) {
  if (!code.includes('import')) return code;
  return code.replace(TOKEN, (all, isStatic, clause, from, isDynamic) => {
    if (isDynamic) return CALL;
    return isStatic ? statement(clause, from) : all;
  });
}

// `import a, {b as c} from "d"` as `const {default: a, b: c} = await …("d");`.
function statement(clause, from) {
  const source = `await ${CALL}(${from});`;
  if (!clause) return source;
  const whole = /\*\s*as\s+([\w$]+)/.exec(clause);
  const named = /\{([\s\S]*)\}/.exec(clause);
  const first = /^\s*([\w$]+)/.exec(clause);
  const parts = [];
  if (first) parts.push(`default: ${first[1]}`);
  if (named) parts.push(named[1].replace(/([\w$]+)\s+as\s+([\w$]+)/g, '$1: $2'));
  if (!whole) return `const {${parts.join(', ')}} = ${source}`;
  const rest = parts.length > 0 ? ` const {${parts.join(', ')}} = ${whole[1]};` : '';
  return `const ${whole[1]} = ${source}${rest}`;
}

function install() {
  Object.defineProperty(globalThis, Symbol.for('ringfence.import'), { value: load });
}

async function load(wanted) {
  return import(resolve(String(wanted)));
}

function resolve(wanted) {
  if (/^(?:node|file|data):/.test(wanted) || builtinModules.includes(wanted)) return wanted;
  if (/^\.{0,2}\//.test(wanted)) return pathToFileURL(path.resolve(process.cwd(), wanted)).href;
  try {
    return pathToFileURL(createRequire(process.cwd() + '/').resolve(wanted)).href;
  } catch {
    return wanted; // Let the loader say that it cannot be found.
  }
}

module.exports = { rewrite, install };
