//! Engines with a subset of the rules.
//!
//! Rules are left out by blanking them in the text of their file, so all others stay on their lines
//! and are parsed as before. The result is compared with the expected rules.

use std::collections::BTreeMap;

use regorus::unstable::{Module, Ref, Rule};

use super::{
    guard,
    lookup::{Lookup, Number},
};
use crate::rego::{DECISION, check, syntax};

/// All rules of a bundle, and which of them may be left out.
#[derive(Debug)]
pub(super) struct Whole {
    files: Vec<File>,
    data: regorus::Value,
}

#[derive(Debug)]
struct File {
    name: String,
    text: String,
    rules: Vec<Placed>,
}

#[derive(Debug)]
struct Placed {
    /// Offset in bytes; the text up to the next rule belongs to it.
    start: usize,
    text: String,
    /// Package and name: one rule of each name stays, so that the name is defined and a set exists.
    /// `None` for a default, which always stays.
    name: Option<Vec<String>>,
    /// `None` if the rule always stays.
    number: Option<Number>,
}

/// Rules of an engine with their lookup table; `None` if fewer than `least` rules can be left out.
pub(super) fn read(engine: &mut regorus::Engine, least: usize) -> Option<(Whole, Lookup)> {
    let data = engine.get_data();
    let modules = engine.get_modules();
    if guard::are_unsure(modules) {
        return None;
    }
    let (mut lookup, mut next) = (Lookup::default(), 0);
    let files = modules.iter().map(|module| file(module, &mut lookup, &mut next));
    let files = files.collect::<Option<Vec<_>>>()?;
    (next as usize >= least).then_some((Whole { files, data }, lookup))
}

fn file(module: &Ref<Module>, lookup: &mut Lookup, next: &mut Number) -> Option<File> {
    let source = &module.package.refr.span().source;
    let mut rules = Vec::with_capacity(module.policy.len());
    for rule in &module.policy {
        let span = rule.span();
        let name = match rule.as_ref() {
            Rule::Default { .. } => None,
            Rule::Spec { .. } => {
                let names = syntax::path(syntax::refr(rule))?.names;
                Some([check::package(module), names].concat())
            }
        };
        let is_found = guard::of(rule).is_some_and(|guard| lookup.add(*next, &guard));
        let number = is_found.then_some(*next);
        *next += Number::from(is_found);
        let (start, text) = (span.start as usize, span.text().to_owned());
        rules.push(Placed { start, text, name, number });
    }
    Some(File { name: source.file().clone(), text: source.contents().clone(), rules })
}

impl Whole {
    /// Number of rules in the subset, and in the bundle.
    pub(super) fn count(&self, needed: &[Number]) -> (usize, usize) {
        let stay = self.stay(needed).concat();
        (stay.iter().filter(|stays| **stays).count(), stay.len())
    }

    /// Engine with the required and the needed rules; `None` if the parsed result is not as expected.
    pub(super) fn subset(&self, needed: &[Number]) -> Option<regorus::Engine> {
        let stay = self.stay(needed);
        let mut engine = regorus::Engine::new();
        engine.set_gather_prints(true);
        for (file, stay) in self.files.iter().zip(&stay) {
            engine.add_policy(file.name.clone(), file.without(stay)).ok()?;
        }
        let modules = engine.get_modules();
        let is_right = |((file, stay), module): ((&File, &Vec<bool>), &Ref<Module>)| {
            let expected = file.rules.iter().zip(stay).filter(|(_, stays)| **stays);
            let expected = expected.map(|(rule, _)| (rule.start, rule.text.as_str()));
            let found = module.policy.iter().map(|rule| rule.span());
            found.map(|span| (span.start as usize, span.text())).eq(expected)
        };
        if !self.files.iter().zip(&stay).zip(modules).all(is_right) {
            return None;
        }
        engine.add_data(self.data.clone()).ok()?;
        engine.compile_with_entrypoint(&DECISION.into()).ok()?;
        Some(engine)
    }

    /// Whether each rule stays, by file.
    fn stay(&self, needed: &[Number]) -> Vec<Vec<bool>> {
        let is_needed =
            |rule: &Placed| rule.number.is_none_or(|number| needed.binary_search(&number).is_ok());
        let mut is_there = BTreeMap::new();
        for rule in self.files.iter().flat_map(|file| &file.rules) {
            *is_there.entry(&rule.name).or_insert(false) |= is_needed(rule);
        }
        let mut stays = |rule: &Placed| {
            let there = is_there.get_mut(&rule.name).is_none_or(|it| std::mem::replace(it, true));
            is_needed(rule) || !there
        };
        self.files.iter().map(|file| file.rules.iter().map(&mut stays).collect()).collect()
    }
}

impl File {
    fn without(&self, stay: &[bool]) -> String {
        let mut text = self.text.clone().into_bytes();
        let ends = self.rules.iter().skip(1).map(|rule| rule.start).chain([text.len()]);
        let ends: Vec<_> = ends.collect();
        for ((rule, end), _) in self.rules.iter().zip(ends).zip(stay).filter(|(_, stays)| !**stays)
        {
            for byte in text.get_mut(rule.start..end).into_iter().flatten() {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
        String::from_utf8(text).unwrap_or_default()
    }
}
