//! Conversion of a Rego value to an answer, within bounds.

use regorus::Value;
use ringfence_types::Digest;
use serde_json::{Map, Number, Value as Json};

use crate::{Answer, Trouble, Unavailable, answer, answer::Malformed};

/// Values and bytes of text visited: an answer of a million reasons costs no more than finding out
/// that it is too long.
const MAX_VISITED: usize = 128 << 10;

/// Answer in a Rego value.
pub(super) fn read(value: &Value, policy: Digest) -> Result<Answer, Unavailable> {
    if *value == Value::Undefined {
        return Err(Unavailable::new(Trouble::Undefined));
    }
    let mut budget = MAX_VISITED;
    let value = json(value, &mut budget)
        .map_err(|malformed| Unavailable::because(Trouble::Malformed, malformed))?;
    answer::read(value, policy)
}

fn json(value: &Value, budget: &mut usize) -> Result<Json, Malformed> {
    spend(budget, 1)?;
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(_) => Json::Number(number(value).ok_or(Malformed::Json)?),
        Value::String(text) => Json::String(string(text, budget)?),
        Value::Array(items) => list(items.iter(), budget)?,
        Value::Set(items) => list(items.iter(), budget)?,
        Value::Object(fields) => {
            let mut object = Map::new();
            for (key, value) in fields.iter() {
                let key = key.as_string().map_err(|_| Malformed::Json)?;
                object.insert(string(key, budget)?, json(value, budget)?);
            }
            Json::Object(object)
        }
        Value::Undefined => return Err(Malformed::Shape),
    })
}

fn list<'a>(items: impl Iterator<Item = &'a Value>, budget: &mut usize) -> Result<Json, Malformed> {
    items.map(|item| json(item, budget)).collect::<Result<_, _>>().map(Json::Array)
}

fn string(text: &str, budget: &mut usize) -> Result<String, Malformed> {
    spend(budget, text.len())?;
    Ok(text.to_owned())
}

fn number(value: &Value) -> Option<Number> {
    let whole = value.as_u64().map(Number::from).or_else(|_| value.as_i64().map(Number::from));
    whole.ok().or_else(|| value.as_f64().ok().and_then(Number::from_f64))
}

fn spend(budget: &mut usize, amount: usize) -> Result<(), Malformed> {
    *budget = budget.checked_sub(amount).ok_or(Malformed::Size(MAX_VISITED))?;
    Ok(())
}
