//! Data that tools keep between their calls, for people: what there is, a copy of it, and its removal.

use ringfence_policy::{Action, ToolFacts};
use ringfence_store::{Error, ToolDataKind, ToolDataScope, ToolDatum, ToolDatumInfo};
use ringfence_types::{Json, Principal, ToolName, ToolStatus, TraceContext};

use super::lifecycle::LifecycleError;
use crate::Engine;

impl Engine {
    /// Names and sizes of the data that a tool keeps for the principal's tenant.
    pub async fn tool_data_names(
        &self,
        who: &Principal,
        tool: &ToolName,
        kind: ToolDataKind,
    ) -> Result<Vec<ToolDatumInfo>, Error> {
        let scope = ToolDataScope { tenant: who.tenant.clone(), tool: tool.clone(), kind };
        self.inner.parts.store.tool_data_names(&scope).await
    }

    /// The data that a tool keeps for the principal's tenant, whole.
    pub async fn tool_data(
        &self,
        who: &Principal,
        tool: &ToolName,
        kind: ToolDataKind,
    ) -> Result<Vec<ToolDatum>, Error> {
        let scope = ToolDataScope { tenant: who.tenant.clone(), tool: tool.clone(), kind };
        self.inner.parts.store.tool_data(&scope, None).await
    }

    /// Removes the data that a tool keeps for the principal's tenant, if policy allows the action
    /// `tool.remove`; gives the number of values and files.
    pub async fn remove_tool_data(
        &self,
        who: &Principal,
        trace: &TraceContext,
        tool: &ToolName,
    ) -> Result<u64, LifecycleError> {
        let args = Json::plain(&serde_json::json!({"event": "remove_data"}));
        let about = ToolFacts::named(tool.clone(), "");
        drop(self.permit_action(who, trace, Action::ToolRemove, about, args).await?);
        Ok(self.inner.parts.store.remove_tool_data(Some(&who.tenant), tool).await?)
    }

    /// Removes the data that a withdrawn tool keeps for all tenants; nothing while a version of it is left.
    pub async fn remove_withdrawn_data(&self, tool: &ToolName) -> Result<u64, Error> {
        let left = self.states_of_tool(tool);
        if left.iter().any(|state| state.status != ToolStatus::Revoked) {
            return Ok(0);
        }
        self.inner.parts.store.remove_tool_data(None, tool).await
    }
}
