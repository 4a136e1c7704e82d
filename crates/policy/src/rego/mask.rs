//! The rule that says what a log of decisions leaves out, by its name in OPA.

use std::fmt;

use regorus::Value;

use super::{Bundle, assemble, check};

/// Where OPA looks for it.
const MASK: &str = "data.system.log.mask";

/// The rule of one bundle. Evaluating it needs a deep stack (see [`STACK`](super::workers::STACK)).
pub(crate) struct Mask {
    pristine: regorus::Engine,
    engine: regorus::Engine,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").finish_non_exhaustive()
    }
}

impl Mask {
    /// The rule of a bundle; none if there is none of that package.
    pub(crate) fn of(bundle: &Bundle) -> Result<Option<Self>, String> {
        let mut engine = assemble(bundle, bundle.rules()).map_err(|error| error.to_string())?;
        let modules = engine.get_modules();
        let masks =
            modules.iter().any(|module| check::package(module) == ["data", "system", "log"]);
        Ok(masks.then(|| Self { pristine: engine.clone(), engine }))
    }

    /// What it says of an entry, as JSON.
    pub(crate) fn evaluate(&mut self, entry: &serde_json::Value) -> Result<String, String> {
        let said = Value::from_json_str(&entry.to_string()).and_then(|input| {
            self.engine.set_input(input);
            self.engine.eval_rule(MASK.to_owned())
        });
        // What it printed is nobody's; it is taken so that it does not pile up.
        drop(self.engine.take_prints());
        match said {
            Ok(Value::Undefined) => Ok("[]".to_owned()),
            Ok(value) => value.to_json_str().map_err(|error| error.to_string()),
            Err(error) => {
                // Whatever it was in the middle of is not for the next entry to find.
                self.engine = self.pristine.clone();
                Err(format!("the mask cannot be evaluated: {error}"))
            }
        }
    }
}
