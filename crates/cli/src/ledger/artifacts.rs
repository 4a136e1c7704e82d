//! Comparison of stored artifacts with their receipts: arguments, results, output.

use ringfence_engine::Kept;
use ringfence_ledger::{Flaw, Place, Problem};
use ringfence_store::Store;
use ringfence_types::{EntryKind, Receipt};
use serde_json::json;

use super::verify::{VerifyReport, broken};
use crate::failure::Failure;

/// Counts of compared artifacts.
#[derive(Debug, Default)]
pub(super) struct Artifacts {
    whole: u64,
    masked: u64,
    erased: u64,
}

impl Artifacts {
    /// Compares the artifacts of a receipt; other entries have none.
    pub(super) async fn compare(
        &mut self,
        store: &dyn Store,
        index: u64,
        kind: EntryKind,
        predicate: &str,
    ) -> Result<(), Failure> {
        if kind != EntryKind::Call {
            return Ok(());
        }
        let flaw = |problem| Flaw { place: Place::Entry(index), problem };
        let receipt: Receipt = serde_json::from_str(predicate)
            .map_err(|_| broken("the log", &flaw(Problem::Statement)))?;
        let found = ringfence_engine::ledger_artifacts(store, &receipt).await;
        let found = found.map_err(|error| Failure::because("cannot read the records", &error))?;
        for artifact in found {
            match artifact.kept {
                Kept::Whole(_) => self.whole += 1,
                Kept::Masked => self.masked += 1,
                Kept::Erased => self.erased += 1,
                Kept::Other => {
                    return Err(broken("the record", &flaw(Problem::Kept(artifact.name))));
                }
            }
        }
        Ok(())
    }

    /// Adds the counts to the report.
    pub(super) fn tell(&self, found: &mut VerifyReport) {
        let Self { whole, masked, erased } = self;
        found.text += &format!("artifacts   {whole} as they are kept, each with its digest\n");
        if *masked > 0 {
            found.text += &format!("            {masked} masked by policy, so kept in part only\n");
        }
        if *erased > 0 {
            found.text += &format!("            {erased} erased, as entries of the ledger say\n");
        }
        found.json["erased"] = json!(erased);
        found.json["artifacts"] = json!(whole);
        found.json["masked"] = json!(masked);
    }
}
