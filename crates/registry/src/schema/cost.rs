//! Cost bound of a schema, computed before it is compiled.
//!
//! A few lines of schema can ask for unbounded work: `allOf` of two references to an `allOf` of two
//! references, thirty times over, or a reference that leads to itself. The library has no budget, so
//! the graph of subschemas is weighed first.
//!
//! For every depth of a value: how many subschemas at most are tried along one path into it, and how
//! many are nested within one another meanwhile. Two alternatives of `properties` never meet the same
//! value and count once; everything that can meet the same value adds up. A value is checked only if
//! the work along one path, times its parts, is within the budget; a schema that could check next to
//! no value is refused.

use std::collections::HashMap;

use ringfence_types::json;
use serde_json::{Map, Value};

use crate::text::shown;

/// Subschemas tried for one value, at some tens of nanoseconds each.
const MAX_WORK: u64 = 100_000_000;
/// Subschemas tried for one part of a value, without descending. The compiler may expand all of them.
const MAX_WORK_IN_PLACE: u64 = 5_000;
/// Nesting limit of subschemas. Each takes some frames on a stack of 2 MiB.
const MAX_NESTING: u64 = 400;
/// Smallest value that a schema must be able to check.
const MIN_VALUE: Measure = Measure { depth: 4, parts: 10 };
/// Different targets of references; ordinary schemas have a dozen.
const MAX_TARGETS: usize = 128;
/// Patterns in a schema; each may compile to a megabyte.
const MAX_PATTERNS: usize = 64;

/// Size of a value: its depth and its number of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measure {
    pub(super) depth: usize,
    pub(super) parts: u64,
}

/// Values that a schema can check in time.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    /// Work along one path into a value, by the value's depth; values deeper than the length of
    /// this list exceed the stack.
    work: Vec<u64>,
}

impl Bounds {
    /// Bounds of a schema.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let graph = Graph::of(schema)?;
        let order =
            graph.order().ok_or("a reference leads to itself without going into the value")?;
        let mut below = vec![Weight::default(); graph.nodes.len()];
        let mut work = Vec::new();
        for _ in 0..=json::DEPTH {
            below = graph.weigh(&order, &below);
            // The root is always the first node.
            if below[0].nesting > MAX_NESTING {
                break;
            }
            work.push(below[0].work);
        }
        let bounds = Self { work };
        let in_place = bounds.work.first().is_some_and(|work| *work <= MAX_WORK_IN_PLACE);
        if in_place && bounds.allow(MIN_VALUE) {
            return Ok(bounds);
        }
        Err("references multiply: a value could take too long to check".to_owned())
    }

    /// Whether a value of this size can be checked in time.
    pub(super) fn allow(&self, value: Measure) -> bool {
        self.work.get(value.depth).is_some_and(|work| work.saturating_mul(value.parts) <= MAX_WORK)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    work: u64,
    nesting: u64,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.work = self.work.saturating_add(other.work);
        self.nesting = self.nesting.max(other.nesting);
    }

    fn max(self, other: Self) -> Self {
        Self { work: self.work.max(other.work), nesting: self.nesting.max(other.nesting) }
    }
}

/// Subschemas that one subschema leads to, by number.
#[derive(Debug, Default)]
struct Node {
    /// Subschemas tried on the same value.
    here: Vec<usize>,
    /// Times that they are tried: `unevaluated…` keywords try all of them again.
    repeats: u64,
    /// Subschemas tried on parts of the value: any of the first, and all of the second.
    fields: (Vec<usize>, Vec<usize>),
    items: (Vec<usize>, Vec<usize>),
}

struct Graph<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    /// Subschemas by address: the same place is the same node.
    numbers: HashMap<*const Value, usize>,
    found: Vec<&'a Value>,
    nodes: Vec<Node>,
    targets: HashMap<*const Value, ()>,
    patterns: usize,
}

impl<'a> Graph<'a> {
    fn of(root: &'a Value) -> Result<Self, String> {
        let mut graph = Self {
            root,
            anchors: HashMap::new(),
            numbers: HashMap::new(),
            found: Vec::new(),
            nodes: Vec::new(),
            targets: HashMap::new(),
            patterns: 0,
        };
        anchors(root, &mut graph.anchors);
        graph.number(root);
        while let Some(schema) = graph.found.get(graph.nodes.len()) {
            let node = graph.node(schema)?;
            graph.nodes.push(node);
        }
        if graph.targets.len() > MAX_TARGETS {
            return Err(format!("references lead to more than {MAX_TARGETS} places"));
        }
        if graph.patterns > MAX_PATTERNS {
            return Err(format!("more than {MAX_PATTERNS} patterns"));
        }
        Ok(graph)
    }

    fn number(&mut self, schema: &'a Value) -> usize {
        let found = &mut self.found;
        *self.numbers.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            found.push(schema);
            found.len() - 1
        })
    }

    fn node(&mut self, schema: &'a Value) -> Result<Node, String> {
        let mut node = Node { repeats: 1, ..Node::default() };
        let Value::Object(fields) = schema else { return Ok(node) };
        self.check_id(schema, fields)?;
        for (keyword, value) in fields {
            match keyword.as_str() {
                "allOf" | "anyOf" | "oneOf" => self.each(value, &mut node.here),
                "not" | "if" | "then" | "else" => self.one(value, &mut node.here),
                "dependentSchemas" | "dependencies" => self.each(value, &mut node.here),
                "$ref" | "$dynamicRef" => self.reference(value, &mut node.here)?,
                "properties" => self.each(value, &mut node.fields.0),
                "patternProperties" => {
                    self.patterns += value.as_object().map_or(0, Map::len);
                    self.each(value, &mut node.fields.1);
                }
                "additionalProperties" | "propertyNames" => self.one(value, &mut node.fields.1),
                "unevaluatedProperties" => {
                    node.repeats += 1;
                    self.one(value, &mut node.fields.1);
                }
                "prefixItems" => self.each(value, &mut node.items.0),
                "items" if value.is_array() => self.each(value, &mut node.items.0),
                "items" | "additionalItems" | "contains" => self.one(value, &mut node.items.1),
                "unevaluatedItems" => {
                    node.repeats += 1;
                    self.one(value, &mut node.items.1);
                }
                "pattern" => self.patterns += 1,
                _ => {}
            }
        }
        Ok(node)
    }

    /// Refuses `$id` below the root: it starts another document with its own references, which the
    /// graph would have to follow. A bare `#name` is an anchor of draft-07.
    fn check_id(&self, schema: &Value, fields: &Map<String, Value>) -> Result<(), String> {
        let id = fields.get("$id").and_then(Value::as_str).unwrap_or("#");
        if id.starts_with('#') || std::ptr::eq(schema, self.root) {
            return Ok(());
        }
        Err(format!("`$id` `{}` is possible at the top only", shown(id)))
    }

    fn one(&mut self, schema: &'a Value, to: &mut Vec<usize>) {
        to.push(self.number(schema));
    }

    fn each(&mut self, schemas: &'a Value, to: &mut Vec<usize>) {
        match schemas {
            Value::Array(list) => to.extend(list.iter().map(|schema| self.number(schema))),
            Value::Object(map) => to.extend(map.values().map(|schema| self.number(schema))),
            _ => {}
        }
    }

    fn reference(&mut self, reference: &Value, to: &mut Vec<usize>) -> Result<(), String> {
        let Some(reference) = reference.as_str() else { return Ok(()) };
        let targets = self.resolve(reference).ok_or_else(|| {
            format!("`$ref` `{}` does not lead to a place in this schema", shown(reference))
        })?;
        for target in targets {
            self.targets.insert(std::ptr::from_ref(target), ());
            to.push(self.number(target));
        }
        Ok(())
    }

    fn resolve(&self, reference: &str) -> Option<Vec<&'a Value>> {
        let id = self.root.get("$id").and_then(Value::as_str).unwrap_or("").trim_end_matches('#');
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !document.is_empty() && document != id {
            return None;
        }
        let fragment = percent_decoded(fragment)?;
        match fragment.as_str() {
            pointer if pointer.is_empty() || pointer.starts_with('/') => {
                self.root.pointer(pointer).map(|target| vec![target])
            }
            name => self.anchors.get(name).cloned(),
        }
    }

    /// Every node after those it tries on the same value; `None` if there is a cycle.
    fn order(&self) -> Option<Vec<usize>> {
        let mut waits: Vec<usize> = self.nodes.iter().map(|node| node.here.len()).collect();
        let mut wanted_by = vec![Vec::new(); self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            node.here.iter().for_each(|child| wanted_by[*child].push(number));
        }
        let mut order: Vec<usize> = (0..waits.len()).filter(|node| waits[*node] == 0).collect();
        let mut next = 0;
        while let Some(done) = order.get(next).copied() {
            next += 1;
            for parent in &wanted_by[done] {
                waits[*parent] -= 1;
                if waits[*parent] == 0 {
                    order.push(*parent);
                }
            }
        }
        (order.len() == self.nodes.len()).then_some(order)
    }

    /// Weights for values one level deeper than those of `below`.
    fn weigh(&self, order: &[usize], below: &[Weight]) -> Vec<Weight> {
        let mut here = vec![Weight::default(); self.nodes.len()];
        for number in order {
            let node = &self.nodes[*number];
            let mut weight = parts(&node.fields, below).max(parts(&node.items, below));
            for child in &node.here {
                let child = here[*child];
                let work = child.work.saturating_mul(node.repeats);
                weight.add(Weight { work, ..child });
            }
            weight.work = weight.work.saturating_add(1);
            weight.nesting += 1;
            here[*number] = weight;
        }
        here
    }
}

fn parts((any, all): &(Vec<usize>, Vec<usize>), below: &[Weight]) -> Weight {
    let mut weight = any.iter().map(|n| below[*n]).fold(Weight::default(), Weight::max);
    all.iter().for_each(|number| weight.add(below[*number]));
    weight
}

/// Collects anchors anywhere in the schema; a name that occurs twice leads to both.
fn anchors<'a>(value: &'a Value, found: &mut HashMap<&'a str, Vec<&'a Value>>) {
    match value {
        Value::Object(fields) => {
            let text = |keyword: &str| fields.get(keyword).and_then(Value::as_str);
            let id = text("$id").and_then(|id| id.strip_prefix('#'));
            for name in [text("$anchor"), text("$dynamicAnchor"), id].into_iter().flatten() {
                found.entry(name).or_default().push(value);
            }
            fields.values().for_each(|value| anchors(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| anchors(value, found)),
        _ => {}
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
