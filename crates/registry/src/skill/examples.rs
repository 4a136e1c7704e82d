//! `examples` of `skill.yaml`: inputs, and the outputs that they give. A server ignores them; authors run
//! them.

use ringfence_types::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{compare, yaml};

/// Examples of one skill.
const MAX_EXAMPLES: usize = 1_000;

/// One example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The arguments.
    pub input: Json,
    /// The result, or as much of it as is expected.
    pub output: Json,
    /// Whether the result may have members that `output` has not.
    #[serde(default)]
    pub is_subset: bool,
}

impl Example {
    /// Differences of a result from the expected one, by JSON Pointer.
    pub fn differences(&self, result: &Json) -> Vec<String> {
        compare::differences(&self.output.to_value(), &result.to_value(), self.is_subset)
    }
}

#[derive(Debug, Deserialize)]
struct Manifest {
    examples: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    input: Value,
    output: Value,
    #[serde(default, rename = "match")]
    how: How,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    #[default]
    Exact,
    Subset,
}

/// Reads the examples of a manifest, or names everything that is wrong with them.
pub(crate) fn parse(manifest: &[u8]) -> Result<Vec<Example>, Vec<String>> {
    // Bounds the file, so that it can be read a second time as it is.
    yaml::parse(manifest).map_err(|problem| vec![format!("skill.yaml: {problem}")])?;
    let read: Result<Manifest, _> = serde_norway::from_slice(manifest);
    let examples = read.map_err(|error| vec![format!("skill.yaml: {error}")])?.examples;
    let named = |problem: String| format!("skill.yaml: {problem}");
    list(examples, MAX_EXAMPLES).map_err(|all| all.into_iter().map(named).collect())
}

/// Reads a list of at most so many examples, or names everything that is wrong with it.
pub(crate) fn list(examples: Option<Value>, most: usize) -> Result<Vec<Example>, Vec<String>> {
    let listed = match examples {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(listed)) if listed.len() <= most => listed,
        Some(Value::Array(_)) => return Err(vec![format!("examples: more than {most}")]),
        Some(_) => return Err(vec!["examples: must be a list".to_owned()]),
    };
    let mut examples = Vec::with_capacity(listed.len());
    let mut problems = Vec::new();
    for (index, written) in listed.into_iter().enumerate() {
        match example(written) {
            Ok(example) => examples.push(example),
            Err(problem) => problems.push(format!("examples[{index}]: {problem}")),
        }
    }
    if problems.is_empty() { Ok(examples) } else { Err(problems) }
}

fn example(written: Value) -> Result<Example, String> {
    let Written { input, output, how } =
        serde_json::from_value(written).map_err(|error| error.to_string())?;
    if !input.is_object() {
        return Err("`input` must be a mapping of arguments".to_owned());
    }
    let json =
        |value: &Value, name| Json::from_value(value).ok_or(format!("`{name}` is too large"));
    Ok(Example {
        input: json(&input, "input")?,
        output: json(&output, "output")?,
        is_subset: matches!(how, How::Subset),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(examples: &str) -> Vec<String> {
        parse(format!("name: x\nexamples:\n{examples}").as_bytes()).unwrap_err()
    }

    #[test]
    fn examples_have_an_input_an_output_and_a_way_to_compare() {
        let text = b"name: x\nexamples:\n- input: {a: 1}\n  output: [1.5]\n- input: {}\n  output: {}\n  match: subset\n";
        let examples = parse(text).unwrap();
        let read: Vec<_> =
            examples.iter().map(|e| (e.input.as_str(), e.output.as_str(), e.is_subset)).collect();
        assert_eq!(read, [("{\"a\":1}", "[1.5]", false), ("{}", "{}", true)]);
        assert_eq!(parse(b"name: x\n").unwrap(), []);
    }

    #[test]
    fn every_example_that_cannot_be_run_is_named() {
        let found = problems(
            "- input: 1\n  output: 2\n- output: 2\n- input: {}\n  output: 1\n  match: like\n",
        );
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("skill.yaml: examples[0]: `input` must be"), "{found:?}");
        assert!(found[1].contains("examples[1]: missing field `input`"), "{found:?}");
        assert!(found[2].contains("unknown variant `like`"), "{found:?}");
        assert_eq!(problems("  a: 1\n"), ["skill.yaml: examples: must be a list"]);
    }
}
