//! Mask rule of the decision log, by its name in OPA.

use std::fmt;

use regorus::Value;

use super::{Bundle, assemble, check};

/// Path of the mask rule in OPA.
const MASK: &str = "data.system.log.mask";

/// Mask rule of one bundle. Evaluating it needs a deep stack (see [`STACK`](super::workers::STACK)).
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
    /// Mask rule of a bundle; `None` if the bundle has no such package.
    pub(crate) fn of(bundle: &Bundle) -> Result<Option<Self>, String> {
        let mut engine = assemble(bundle, bundle.rules()).map_err(|error| error.to_string())?;
        let modules = engine.get_modules();
        let masks =
            modules.iter().any(|module| check::package(module) == ["data", "system", "log"]);
        Ok(masks.then(|| Self { pristine: engine.clone(), engine }))
    }

    /// Mask of an entry, as JSON.
    pub(crate) fn evaluate(&mut self, entry: &serde_json::Value) -> Result<String, String> {
        let answer = Value::from_json_str(&entry.to_string()).and_then(|input| {
            self.engine.set_input(input);
            self.engine.eval_rule(MASK.to_owned())
        });
        // Prints are discarded, so that they do not accumulate.
        drop(self.engine.take_prints());
        match answer {
            Ok(Value::Undefined) => Ok("[]".to_owned()),
            Ok(value) => value.to_json_str().map_err(|error| error.to_string()),
            Err(error) => {
                // A failed evaluation may leave state in the engine.
                self.engine = self.pristine.clone();
                Err(format!("the mask cannot be evaluated: {error}"))
            }
        }
    }
}
